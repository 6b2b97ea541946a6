//! Several trees that were made of one, as one.

use std::collections::BTreeMap;

use super::{CommitId, Refusal, Tree, TreeError, TreeErrorKind, TreeId, refusal::RefusedPath};

impl Tree {
    /// Joins what each of `units` changed of `parent` into one tree. The units are given in the order of the plan; as no two
    /// may change one path, nothing depends on it.
    ///
    /// # Errors
    ///
    /// [`Overlap`](TreeErrorKind::Overlap), with the paths, if two of them change the same path, be it alike, or if one has a
    /// file where another has a folder; [`NotFound`](TreeErrorKind::NotFound) if a commit or tree is not there.
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
        // What is there afterwards as a file and as a folder.
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
}
