//! The seam is neutral: it names no vendor, and pulls in nothing that talks to the world.

use std::{fs, path::Path, process::Command};

const VENDOR_WORDS: [&str; 8] = ["anthropic", "claude", "openai", "chatgpt", "codex", "xai", "x.ai", "grok"];

fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
    assert!(found.len() >= 20, "only {} files were read", found.len());
    assert!(found.iter().any(|(_, text)| text.contains("trait ExecutionBackend")), "the seam was not read");
    found
}

#[test]
fn no_vendor_is_named() {
    for (path, text) in all_sources() {
        let text = text.to_lowercase();
        for word in VENDOR_WORDS {
            assert!(!text.contains(word), "{path} names {word:?}");
        }
    }
}

#[test]
fn nothing_is_spawned_or_connected() {
    for (path, text) in all_sources() {
        for module in ["std::process", "std::net", "tokio::net", "tokio::process"] {
            assert!(!text.contains(module), "{path} uses {module}");
        }
    }
}

#[test]
fn no_dependency_speaks_http_spawns_or_reads_yaml() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            env!("CARGO_PKG_NAME"),
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
        ])
        .args(["--no-default-features", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"serde_json"), "the dependencies were not read");
    for banned in ["hyper", "reqwest", "ureq", "h2", "mio", "serde_yaml", "serde-saphyr", "rustls"] {
        assert!(!names.contains(&banned), "nexus-core depends on {banned}");
    }
}

#[test]
fn of_the_system_calls_only_those_for_files_are_in_reach() {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            env!("CARGO_PKG_NAME"),
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p} {f}",
        ])
        .args(["--no-default-features", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    let calls: Vec<&str> = tree.lines().filter(|line| line.starts_with("rustix ")).collect();
    assert!(!calls.is_empty() || !cfg!(unix), "the dependencies were not read");
    for line in calls {
        let features = line.split(' ').nth(2).unwrap_or_default().split(',');
        for feature in features.filter(|feature| !feature.starts_with('(')) {
            assert!(
                ["", "alloc", "default", "fs", "std"].contains(&feature),
                "rustix has {feature:?} in nexus-core"
            );
        }
    }
}
