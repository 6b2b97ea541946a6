//! The router knows backends by their trait, and vendors by what the registry says.

use std::{fs, path::Path};

const VENDORS: [&str; 8] = ["claude", "codex", "grok", "openai", "anthropic", "xai", "chatgpt", "ollama"];

#[test]
fn no_vendor_is_named_in_the_source() {
    let mut read = 0;
    search(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut read);
    assert!(read >= 20, "only {read} files were read");
}

fn search(folder: &Path, read: &mut usize) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, read);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        let named = VENDORS.iter().find(|vendor| text.contains(**vendor));
        assert_eq!(named, None, "{} names a vendor", path.display());
        *read += 1;
    }
}

#[test]
fn the_router_depends_on_the_seam_and_on_private_files_alone() {
    let manifest = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).unwrap();
    let dependencies = manifest.split("[dev-dependencies]").next().unwrap();
    let ours = dependencies.lines().filter(|line| line.starts_with("nexus-"));
    let names: Vec<_> = ours.filter_map(|line| line.split(['.', ' ']).next()).collect();
    assert_eq!(names, ["nexus-core", "nexus-files"]);
}
