//! Credentials in the folders of tool chains, which a sandbox covers.
//!
//! A tool chain stores its credentials beside its programs. They are recognised by their names, down to a maximum
//! depth. The caller must [hide](super::Sandbox::hidden) a credential with another name.

use std::fs;
use std::path::{Path, PathBuf};

use nexus_core::looks_like_key;

/// Names of files and folders that contain credentials, in any folder.
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
/// Files that contain credentials if they are in a folder of this name.
const IN_FOLDERS: [(&str, &str); 3] =
    [(".git", "config"), (".bundle", "config"), (".composer", "config.json")];
/// Settings files with lines that may contain credentials. If a second name is given, the file must be in a folder of
/// that name.
const SETTINGS: [(&str, Option<&str>); 11] = [
    ("config.toml", None),
    ("config", Some(".cargo")),
    ("config", Some("cargo")),
    ("bunfig.toml", None),
    (".bunfig.toml", None),
    ("uv.toml", None),
    ("env", Some("go")),
    // Addresses of packages and repositories, which may contain a user and a password.
    (".crates.toml", None),
    (".crates2.json", None),
    ("uv-receipt.toml", None),
    ("FETCH_HEAD", None),
];
/// Words in a line that may contain a credential.
const TELLING: [&str; 8] = ["token", "secret", "passw", "credential", "api-key", "api_key", "apikey", "auth"];
/// Maximum size of a settings file that is filtered, in bytes; a larger file is covered. Source: our own bound.
const SETTINGS_BYTES: u64 = 256 << 10;
/// Depth to which a tool chain is searched. `registry/src/INDEX` of cargo's home is at level 3; below it are thousands
/// of folders.
const DEPTH: usize = 3;

/// A path with credentials.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HiddenCredential {
    /// A file or folder that must be covered completely.
    Whole(PathBuf),
    /// A settings file, and its text without the credentials.
    Lines(PathBuf, String),
}

impl HiddenCredential {
    /// Returns the path of the file or folder.
    pub(super) fn into_path(self) -> PathBuf {
        match self {
            Self::Whole(path) | Self::Lines(path, _) => path,
        }
    }
}

/// Returns the credentials in `folder`: files with a known name, and settings files that contain credentials.
pub(super) fn in_folder(folder: &Path) -> Vec<HiddenCredential> {
    let mut found = Vec::new();
    look(folder, DEPTH, &mut found);
    found
}

fn look(folder: &Path, depth: usize, found: &mut Vec<HiddenCredential>) {
    let Ok(entries) = fs::read_dir(folder) else {
        // A folder that cannot be listed may still let a program open a file by its name.
        let by_name = NAMES.iter().chain(SETTINGS.iter().map(|(name, _)| name));
        let there = by_name.map(|name| folder.join(name)).filter(|path| path.symlink_metadata().is_ok());
        return found.extend(there.map(HiddenCredential::Whole));
    };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let parent = folder.file_name().unwrap_or_default();
        let is_secret = NAMES.iter().any(|secret| name.eq_ignore_ascii_case(secret))
            || IN_FOLDERS.iter().any(|(within, secret)| parent == *within && name == *secret);
        let is_settings = SETTINGS.iter().any(|(known, within)| name == *known && within.is_none_or(|within| parent == within))
                // Cargo's home may have any name, but it contains `registry`.
                || name == "config" && folder.join("registry").is_dir();
        // Below the last level, `.git` has settings that may name a password.
        if is_secret || (depth == 1 && name == ".git") {
            found.push(HiddenCredential::Whole(path));
        } else if is_settings && path.is_file() {
            found.extend(among_settings(path));
        } else if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&path, depth - 1, found);
        }
    }
}

/// Returns a settings file if it contains credentials. An unreadable file counts as one.
fn among_settings(path: PathBuf) -> Option<HiddenCredential> {
    if path.metadata().is_ok_and(|found| found.len() > SETTINGS_BYTES) {
        return Some(HiddenCredential::Whole(path));
    }
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(_) => return Some(HiddenCredential::Whole(path)),
    };
    if !text.lines().any(may_hold_credential) {
        return None;
    }
    // A multi-line text may have the credential in any line, and an escape may spell the word. So cover such a file
    // completely.
    if ["\"\"\"", "'''", "\\u", "\\U"].iter().any(|sign| text.contains(sign)) {
        return Some(HiddenCredential::Whole(path));
    }
    let left = text.lines().map(|line| if may_hold_credential(line) { "" } else { line });
    Some(HiddenCredential::Lines(path, left.collect::<Vec<_>>().join("\n") + "\n"))
}

/// Returns true if a line of settings may contain a credential: by its words, by a text that looks like a key, or by a
/// user before a host.
fn may_hold_credential(line: &str) -> bool {
    let line = line.trim();
    // A table header contains no value.
    if line.is_empty()
        || line.starts_with('#') && !line.contains('=')
        || line.starts_with('[') && !line.contains('=')
    {
        return false;
    }
    let lower = line.to_ascii_lowercase();
    let words = line.split(|letter: char| letter.is_whitespace() || "\"'=,{}[]".contains(letter));
    TELLING.iter().any(|word| lower.contains(word))
        || line.contains('@')
        || words.into_iter().any(looks_like_key)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_token_is_not_left_wherever_it_stands_among_settings(
            before in prop::collection::vec("(\\[[a-z.]{1,8}\\]|[a-z]{1,6} = (1|true|\"[a-z]{0,6}\"))", 0..6),
            after in prop::collection::vec("[a-z]{1,6} = (1|true|\"[a-z]{0,6}\")", 0..6),
            form in 0_usize..6,
            secret in "[A-Za-z0-9]{20,40}canary",
        ) {
            let line = match form {
                0 => format!("token = \"{secret}\""),
                1 => format!("registries.own = {{ index = \"x\", token = '{secret}' }}"),
                2 => format!("\t\"registry\".\"TOKEN\"=\"{secret}\" # x"),
                3 => format!("proxy = \"me:{secret}@host:1\""),
                4 => format!("x = \"\"\"\ntoken\n{secret}\n\"\"\""),
                _ => format!("PLAIN = \"ghp_{secret}\""),
            };
            let folder = tempfile::tempdir().unwrap();
            let lines: Vec<String> = before.iter().cloned().chain([line]).chain(after.iter().cloned()).collect();
            std::fs::write(folder.path().join("config.toml"), lines.join("\n")).unwrap();
            match in_folder(folder.path()).as_slice() {
                [HiddenCredential::Whole(_)] => prop_assert_eq!(form, 4),
                [HiddenCredential::Lines(_, left)] => {
                    prop_assert!(!left.contains("canary"), "{}", left);
                    let kept = after.iter().filter(|line| !may_hold_credential(line)).all(|line| left.contains(line.as_str()));
                    prop_assert!(kept, "{}", left);
                }
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
