//! Generates the table of the traps in `traps/`, whose files become part of the library. It has some hundred files, too many
//! for a table by hand.

use std::{env, fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("traps");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut table = String::from("&[\n");
    for trap in names(&root)? {
        table += &format!("    ({trap:?}, &[\n");
        add(&mut table, &root.join(&trap), "")?;
        table += "    ]),\n";
    }
    table += "]\n";
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("traps.rs"), table)
}

/// Adds the files of a folder. Their paths are relative to the trap's folder.
fn add(table: &mut String, folder: &Path, below: &str) -> io::Result<()> {
    for name in names(folder)? {
        let (path, place) = (folder.join(&name), format!("{below}{name}"));
        if path.is_dir() {
            add(table, &path, &format!("{place}/"))?;
        } else {
            *table += &format!("        ({place:?}, include_bytes!({:?})),\n", path.to_string_lossy());
        }
    }
    Ok(())
}

/// Returns the names in a folder, sorted, without Python's cache folder.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.file_name()));
    let mut names: Vec<_> = entries.collect::<io::Result<_>>()?;
    // Python leaves this folder after a trap's program ran. Its files would change the fingerprint of the trap.
    names.retain(|name| name != "__pycache__");
    // The order of `read_dir` differs between machines. `Trap::built_in` promises the traps sorted by name.
    names.sort();
    names
        .into_iter()
        .map(|name| name.into_string().map_err(|name| io::Error::other(format!("{name:?}"))))
        .collect()
}
