//! Merges several trees with a common parent.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use super::{
    CommitId, Refusal, Tree, TreeError, TreeErrorKind, TreeId,
    refusal::{RefusedPath, to_path},
    repo::{Repo, records},
    text,
};

impl Tree {
    /// Merges the changes that each of `units` made to `parent` into one tree. No two units may change the same path, so the
    /// order has no influence.
    ///
    /// # Errors
    ///
    /// [`Overlap`](TreeErrorKind::Overlap), with the paths, if two units change the same path, even in the same way, or if
    /// one has a file where another has a folder. [`NotFound`](TreeErrorKind::NotFound) if a commit or tree does not exist.
    pub fn merge(&self, parent: &CommitId, units: &[TreeId]) -> Result<TreeId, TreeError> {
        let mut entries = self.repo.entries(parent.as_str())?;
        let mut changed: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        let mut overlaps = Vec::new();
        for unit in units {
            for difference in self.repo.differences(parent.as_str(), unit.as_str())? {
                if changed.insert(difference.path.clone(), difference.new.is_some()).is_some() {
                    overlaps.push(RefusedPath::new(&difference.path, Refusal::Overlap));
                }
                match difference.new {
                    Some(entry) => entries.insert(difference.path, entry),
                    None => entries.remove(&difference.path),
                };
            }
        }
        // Find paths that would be both a file and a folder in the result.
        for path in changed.iter().filter(|(_, is_there)| **is_there).map(|(path, _)| path) {
            let ends = (0..path.len()).filter(|at| path[*at] == b'/');
            if ends.map(|end| &path[..end]).any(|folder| entries.contains_key(folder)) {
                overlaps.push(RefusedPath::new(path, Refusal::Overlap));
            }
        }
        if overlaps.is_empty() {
            return self.repo.write_tree(&entries);
        }
        overlaps.sort();
        overlaps.dedup();
        Err(TreeError::with_paths(TreeErrorKind::Overlap, "trees that cannot be merged", overlaps))
    }

    /// Merges two commits as git does. Returns the conflicting paths if they do not merge.
    pub(super) fn joined(
        &self,
        ours: &CommitId,
        theirs: &CommitId,
    ) -> Result<Result<TreeId, Vec<PathBuf>>, TreeError> {
        let scratch = self.repo.scratch()?;
        // Use a repository without settings: attributes may name a merge driver, but only a setting defines its program.
        let fresh = Repo::make(self.repo.git(), &scratch, self.object_format(), None)?;
        // `shallow` lists where the history of a shallow clone ends. Git needs it to find the merge base.
        match fs::read(self.repo.path().join("shallow")) {
            Ok(shallow) => fresh.write("shallow", &shallow)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(TreeError::from_io(&self.repo.path().join("shallow"), "cannot be read", error));
            }
        }
        let attributes = [format!("attr.tree={ours}")];
        let command = fresh
            .command_with("merge-tree", &attributes)
            .env("GIT_OBJECT_DIRECTORY", self.repo.path().join("objects"))
            .args(["--write-tree", "-z", "--name-only", "--no-messages", ours.as_str(), theirs.as_str()]);
        let (ended, output) = command.outcome(b"")?;
        let is_clean = match ended.code() {
            Some(1) => false,
            _ => ended.success().map(|()| true)?,
        };
        let mut parts = records(&output);
        let tree = parts.next().ok_or_else(|| text::unexpected("no tree of a merge"))?;
        match is_clean {
            true => Ok(Ok(text::id(&String::from_utf8_lossy(tree))?)),
            false => Ok(Err(parts.map(to_path).collect())),
        }
    }
}
