//! Content of a tree, and differences between two trees, from the objects alone: attributes, configuration and
//! index have no influence.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    TreeError, TreeErrorKind,
    objects::{self, ObjectReader},
    repo::{Difference, GitEntries, GitEntry, Repo},
    text::{self, unexpected},
};

/// Maximum size of a commit or tree object, and of a whole listing in memory, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// Bytes that a folder or file of a listing counts in addition to its path.
const ITEM_BYTES: u64 = 256;

/// Mode of a folder within a tree.
const FOLDER: u32 = 0o040_000;
const KIND: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;

/// Items of one folder, by name.
type FolderItems = BTreeMap<Vec<u8>, GitEntry>;

/// Folder to visit in one tree, or in two: its path with a trailing slash, and its ids.
struct Visit {
    path: Vec<u8>,
    old: Option<String>,
    new: Option<String>,
}

impl Repo {
    /// Returns all files and links of a commit or tree. Submodules are entries, too.
    pub(super) fn entries(&self, treeish: &str) -> Result<GitEntries, TreeError> {
        let mut reader = self.reader()?;
        let root = self.root_by(&mut reader, treeish)?;
        let mut entries = GitEntries::new();
        walk(&mut reader, None, Some(root), |path, _, new| {
            entries.extend(new.map(|entry| (path, entry)));
        })?;
        Ok(entries)
    }

    /// Returns the differences between two commits or trees, in order. Compares only ids, so no attribute hides
    /// a change.
    pub(super) fn differences(&self, from: &str, to: &str) -> Result<Vec<Difference>, TreeError> {
        let mut reader = self.reader()?;
        let (old, new) = (self.root_by(&mut reader, from)?, self.root_by(&mut reader, to)?);
        let mut differences = Vec::new();
        walk(&mut reader, Some(old), Some(new), |path, old, new| {
            differences.push(Difference { path, old, new });
        })?;
        differences.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(differences)
    }

    /// Returns the tree of a commit or tree, if it exists.
    pub(super) fn root(&self, treeish: &str) -> Result<String, TreeError> {
        self.root_by(&mut self.reader()?, treeish)
    }

    fn root_by(&self, reader: &mut ObjectReader, treeish: &str) -> Result<String, TreeError> {
        match reader.object(treeish, MAX_BYTES)? {
            Some(object) if object.kind == "tree" => Ok(treeish.to_owned()),
            Some(object) if object.kind == "commit" => Ok(String::from(text::tree_in(&object.bytes)?)),
            _ => Err(self.no_object("commit or tree", treeish)),
        }
    }
}

/// Visits the differences between two trees, of which one may be missing. It goes level by level, so that all folders of a
/// level are read in one batch. It skips folders that are equal.
fn walk(
    reader: &mut ObjectReader,
    old: Option<String>,
    new: Option<String>,
    mut found: impl FnMut(Vec<u8>, Option<GitEntry>, Option<GitEntry>),
) -> Result<(), TreeError> {
    let mut level = vec![Visit { path: Vec::new(), old, new }];
    let mut bytes = 0;
    while !level.is_empty() {
        level.retain(|visit| visit.old != visit.new);
        let folders = folders(reader, &level)?;
        let items = |id: &Option<String>| id.as_ref().and_then(|id| folders.get(id));
        let mut next = Vec::new();
        for Visit { path, old, new } in &level {
            for (name, old, new) in pairs(items(old), items(new)) {
                let path = [path, name].concat();
                bytes += path.len() as u64 + ITEM_BYTES;
                if bytes > MAX_BYTES {
                    let message = format!("a tree has more than {MAX_BYTES} bytes of names");
                    return Err(TreeError::new(TreeErrorKind::TooLarge, message));
                }
                let (old_folder, old) = split(old);
                let (new_folder, new) = split(new);
                if old_folder.is_some() || new_folder.is_some() {
                    next.push(Visit {
                        path: [&path, b"/".as_slice()].concat(),
                        old: old_folder,
                        new: new_folder,
                    });
                }
                if old.is_some() || new.is_some() {
                    found(path, old, new);
                }
            }
        }
        level = next;
    }
    Ok(())
}

/// Reads the folders of a level, each once.
fn folders(reader: &mut ObjectReader, level: &[Visit]) -> Result<HashMap<String, FolderItems>, TreeError> {
    let ids = level.iter().flat_map(|visit| [&visit.old, &visit.new]).flatten();
    let ids: Vec<&String> = ids.collect::<BTreeSet<_>>().into_iter().collect();
    let mut folders = HashMap::with_capacity(ids.len());
    reader.read(&ids, MAX_BYTES, |at, object| match object {
        Some(object) if object.kind == "tree" => {
            folders.insert(ids[at].clone(), items_in(&object.bytes, ids[at].len() / 2)?);
            Ok(())
        }
        Some(_) => Err(unexpected("no tree")),
        None => Err(objects::missing(ids[at])),
    })?;
    Ok(folders)
}

/// Returns the items that differ, by name.
fn pairs<'i>(
    old: Option<&'i FolderItems>,
    new: Option<&'i FolderItems>,
) -> impl Iterator<Item = (&'i [u8], Option<&'i GitEntry>, Option<&'i GitEntry>)> {
    let mut pairs: BTreeMap<&[u8], (Option<&GitEntry>, Option<&GitEntry>)> = BTreeMap::new();
    for (name, entry) in old.into_iter().flatten() {
        pairs.entry(name).or_default().0 = Some(entry);
    }
    for (name, entry) in new.into_iter().flatten() {
        pairs.entry(name).or_default().1 = Some(entry);
    }
    pairs.into_iter().filter(|(_, (old, new))| old != new).map(|(name, (old, new))| (name, old, new))
}

/// Splits an item into a folder or something else.
fn split(item: Option<&GitEntry>) -> (Option<String>, Option<GitEntry>) {
    match item {
        Some(entry) if entry.mode == FOLDER => (Some(entry.id.clone()), None),
        entry => (None, entry.cloned()),
    }
}

/// Parses a tree object: for each item a mode in octal digits, a name and a NUL, and the bytes of an id. Source:
/// `decode_tree_entry` in git.
fn items_in(mut bytes: &[u8], id_bytes: usize) -> Result<FolderItems, TreeError> {
    let odd = || unexpected("an odd tree");
    let mut items = FolderItems::new();
    while !bytes.is_empty() {
        let (mode, rest) = super::repo::split_once(bytes, b' ').ok_or_else(odd)?;
        let (name, rest) = super::repo::split_once(rest, 0).ok_or_else(odd)?;
        let (id, rest) = rest.split_at_checked(id_bytes).ok_or_else(odd)?;
        let mode = std::str::from_utf8(mode).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
        items
            .insert(name.to_vec(), GitEntry { mode: usual(mode.ok_or_else(odd)?), id: nexus_files::hex(id) });
        bytes = rest;
    }
    Ok(items)
}

/// Normalises a mode as git does: old repositories contain other modes. Source: `canon_mode` in git.
fn usual(mode: u32) -> u32 {
    match mode & KIND {
        REGULAR if mode & 0o100 != 0 => super::repo::EXECUTABLE,
        REGULAR => super::repo::FILE,
        super::repo::LINK => super::repo::LINK,
        FOLDER => FOLDER,
        _ => super::repo::GITLINK,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_tree_object_is_read_with_modes_as_git_takes_them() {
        let mut bytes = Vec::new();
        for (mode, name) in [
            ("40000", "folder"),
            ("100664", "old"),
            ("100755", "program"),
            ("120000", "link"),
            ("160000", "sub"),
        ] {
            bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
            bytes.extend_from_slice(&[0xAB; 20]);
        }
        let items = items_in(&bytes, 20).unwrap();
        let modes: Vec<(&str, u32)> =
            items.iter().map(|(name, entry)| (std::str::from_utf8(name).unwrap(), entry.mode)).collect();
        let expected = [
            ("folder", 0o040_000),
            ("link", 0o120_000),
            ("old", 0o100_644),
            ("program", 0o100_755),
            ("sub", 0o160_000),
        ];
        assert_eq!(modes, expected);
        assert!(items.values().all(|entry| entry.id == "ab".repeat(20)));
        for length in 1..bytes.len() {
            let is_whole = [33, 64, 99, 131].contains(&length);
            assert_eq!(items_in(&bytes[..length], 20).is_ok(), is_whole, "{length}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd_to_be_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = items_in(&bytes, 20);
            let _ = text::tree_in(&bytes);
        }
    }
}
