//! Names that a tree rejects.

use std::collections::{BTreeMap, BTreeSet};

use nexus_core::scope::{folded_name, is_dot_git};

use super::{Refusal, TreeError, TreeErrorKind, refusal::RefusedPath};

/// Returns the path if its name is rejected: control characters, or a name that some file system takes for `.git`.
pub(super) fn refuse_name(path: &[u8]) -> Option<RefusedPath> {
    if path.split(|byte| *byte == b'/').any(is_dot_git) {
        return Some(RefusedPath::new(path, Refusal::DotGit));
    }
    let has_control = path.utf8_chunks().any(|chunk| chunk.valid().chars().any(char::is_control));
    has_control.then(|| RefusedPath::new(path, Refusal::ControlCharacter))
}

/// Fails for a tree with a `.git`, which must never be written to a file system.
pub(super) fn refuse_dot_git<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Result<(), TreeError> {
    let is_bad = |path: &&Vec<u8>| path.split(|byte| *byte == b'/').any(is_dot_git);
    let refused: Vec<_> = paths.filter(is_bad).map(|path| RefusedPath::new(path, Refusal::DotGit)).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(TreeError::with_paths(TreeErrorKind::Refused, "the commit cannot be written to a folder", refused))
}

/// Returns the paths that some file systems do not distinguish from another path, unless all of them are in the base.
/// Folders count, too.
pub(super) fn twins<'a>(
    base: impl Iterator<Item = &'a [u8]>,
    tree: impl Iterator<Item = &'a [u8]>,
) -> Vec<RefusedPath> {
    let mut known = BTreeSet::new();
    for path in base {
        known.extend(beginnings(path));
    }
    let mut spellings: BTreeMap<String, BTreeSet<&[u8]>> = BTreeMap::new();
    for path in tree {
        let mut key = String::new();
        for (beginning, name) in beginnings(path).zip(path.split(|byte| *byte == b'/')) {
            key.push('/');
            key += &folded(name);
            spellings.entry(key.clone()).or_default().insert(beginning);
        }
    }
    let twins = spellings.into_values().filter(|spellings| spellings.len() > 1).flatten();
    twins.filter(|path| !known.contains(path)).map(|path| RefusedPath::new(path, Refusal::Twin)).collect()
}

/// Returns the folders of a path, and the path itself.
fn beginnings(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = (0..path.len()).filter(|at| path[*at] == b'/').chain([path.len()]);
    ends.map(|end| &path[..end])
}

fn folded(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) => folded_name(text),
        // Names that are not Unicode are compared by their bytes, without ASCII case.
        Err(_) => name.iter().map(|byte| format!("\u{0}{:02x}", byte.to_ascii_lowercase())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twins_are_found_in_files_and_folders_and_the_base_keeps_its_own() {
        let base: [&[u8]; 3] = [b"README", b"readme", b"src/a"];
        let tree: [&[u8]; 7] =
            [b"README", b"readme", b"src/a", b"Src/b", b"x", b"caf\xc3\xa9", b"CAFE\xcc\x81"];
        let found = twins(base.into_iter(), tree.into_iter());
        let paths: Vec<_> =
            found.iter().map(|refused| refused.path().to_string_lossy().into_owned()).collect();
        assert_eq!(paths, ["CAFE\u{301}", "caf\u{e9}", "Src"]);
        assert_eq!(twins(base.into_iter(), base.into_iter()), []);
        assert_eq!(twins([b"a".as_slice()].into_iter(), [b"A".as_slice(), b"a"].into_iter()).len(), 1);
    }
}
