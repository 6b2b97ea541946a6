//! Combines a tree with some paths of another tree.

use std::path::Path;

use super::{
    Tree, TreeError, TreeId, Treeish,
    repo::{GitEntries, beginnings},
};

impl Tree {
    /// Returns `tree` with each of `paths` as in `from`: with the same content and mode, or removed if `from` does not have
    /// it. A file is removed if the path needs a folder there.
    ///
    /// The paths name files and links, from the top. If `from` has a file or link at a path, the result has nothing below
    /// it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](super::TreeErrorKind::NotFound) if a commit or tree does not exist; errors of git.
    pub fn with_paths_of<'a, 'b>(
        &self,
        tree: impl Into<Treeish<'a>>,
        from: impl Into<Treeish<'b>>,
        paths: impl IntoIterator<Item = impl AsRef<Path>>,
    ) -> Result<TreeId, TreeError> {
        use std::os::unix::ffi::OsStrExt as _;
        let (mut entries, others) = (self.repo.entries(tree.into().0)?, self.repo.entries(from.into().0)?);
        for path in paths {
            let path = path.as_ref().as_os_str().as_bytes();
            match others.get(path) {
                Some(entry) => {
                    clear(&mut entries, path);
                    entries.insert(path.to_vec(), entry.clone());
                }
                None => drop(entries.remove(path)),
            }
        }
        self.repo.write_tree(&entries)
    }
}

/// Removes the entries above and below a file at `path`.
fn clear(entries: &mut GitEntries, path: &[u8]) {
    for above in beginnings(path) {
        entries.remove(above);
    }
    let below = [path, b"/"].concat();
    let found: Vec<_> = entries
        .range(below.clone()..)
        .map(|(path, _)| path)
        .take_while(|path| path.starts_with(&below))
        .cloned()
        .collect();
    for path in found {
        entries.remove(&path);
    }
}
