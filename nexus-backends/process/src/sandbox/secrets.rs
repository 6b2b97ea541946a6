//! Credentials in the folders of tool chains, which are covered.
//!
//! A tool chain keeps its credentials beside its programs. They are known by their names, down to a depth; a credential
//! under a name of its own is the caller's to [hide](super::Sandbox::hidden).

use std::fs;
use std::path::{Path, PathBuf};

/// Files and folders that hold credentials, wherever they lie.
const NAMES: [&str; 39] = [
    "credentials",
    "credentials.toml",
    "credentials.json",
    ".credentials",
    ".credentials.json",
    "auth.json",
    "token",
    ".token",
    "token.json",
    ".npmrc",
    "npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    "pip.conf",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".env",
    "settings.xml",
    "settings-security.xml",
    "gradle.properties",
    "NuGet.Config",
    "hosts.yml",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".vault-token",
    ".pgpass",
    ".my.cnf",
    ".bash_history",
    ".python_history",
];
/// Files that hold credentials in a folder of this name.
const IN_FOLDERS: [(&str, &str); 3] =
    [(".git", "config"), (".bundle", "config"), (".composer", "config.json")];
/// How deep a tool chain is looked through. `registry/src/INDEX` of cargo's home is at 3; below it are thousands.
const DEPTH: usize = 3;

/// The credentials in `folder`, by their names.
pub(super) fn in_folder(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(folder, DEPTH, &mut found);
    found
}

fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        // What cannot be listed may be read by its name all the same.
        let by_name =
            NAMES.iter().map(|name| folder.join(name)).filter(|path| path.symlink_metadata().is_ok());
        return found.extend(by_name);
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let parent = folder.file_name().unwrap_or_default();
        let is_secret = NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
            || IN_FOLDERS.iter().any(|(within, secret)| parent == *within && name == *secret);
        if is_secret {
            found.push(path);
        } else if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&path, depth - 1, found);
        }
    }
}
