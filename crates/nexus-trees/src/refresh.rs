//! Updates a folder to another commit, and keeps the build output in it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use super::{
    Tree, TreeError, Treeish, handle,
    repo::{self, beginnings},
    scan,
    snapshot::asked_as,
};

impl Tree {
    /// Like [`Tree::restore`], but keeps files that the base's rules ignore, such as build output. Removes ignored files
    /// that block a file of the target, and empty folders.
    ///
    /// # Errors
    ///
    /// Errors of [`Tree::restore`]; [`TooLarge`](super::TreeErrorKind::TooLarge) above the limits, and
    /// [`PermissionDenied`](super::TreeErrorKind::PermissionDenied) for an unreadable folder.
    pub fn refresh<'a>(
        &self,
        commit: impl Into<Treeish<'a>>,
        folder: impl AsRef<Path>,
    ) -> Result<(), TreeError> {
        let (commit, folder) = (commit.into(), folder.as_ref());
        let entries = self.repo.entries(commit.0)?;
        let root = handle::open_folder(folder)
            .map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
        let mut found = scan::scan(&root, &self.limits)?;
        found.retain(|found| !entries.contains_key(&found.path));
        let asked: BTreeSet<Vec<u8>> = found.iter().map(asked_as).collect();
        let ignored = self.rules().ignored(&self.repo, &asked)?;
        found.retain(|found| ignored.contains(&asked_as(found)));
        let folders: BTreeSet<&[u8]> = entries.keys().flat_map(|path| beginnings(path)).collect();
        let is_in_the_way =
            |path: &[u8]| folders.contains(path) || beginnings(path).any(|above| entries.contains_key(above));
        let kept: Vec<PathBuf> = found
            .iter()
            .filter(|found| !is_in_the_way(&found.path))
            .map(|found| Path::new(repo::os(&found.path)).to_owned())
            .collect();
        let kept: Vec<&Path> = kept.iter().map(PathBuf::as_path).collect();
        self.restore(commit, folder, &kept)
    }
}
