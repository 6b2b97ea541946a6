//! Comparison of paths by identity, under all names of a file.

use std::path::Path;

use super::{file_id::FileId, path_key::key_of};

/// A path in comparable form. It has the names, folded as the laxest file system compares them, and the ids of the existing
/// files on the path. The ids are needed because a folder can be mounted twice.
#[derive(Clone, Debug)]
pub(super) struct PathIdentity {
    key: Vec<String>,
    /// Id of each existing name, from the root of the file system down.
    trail: Vec<FileId>,
}

impl PathIdentity {
    /// `path` is a real path, and `trail` has the id of each existing name on it.
    pub(super) fn new(path: &Path, trail: Vec<FileId>) -> Self {
        Self { key: key_of(path), trail }
    }

    /// Creates an identity from the names alone.
    pub(super) fn by_name(path: &Path) -> Self {
        Self::new(path, Vec::new())
    }

    /// Returns true if this path equals `other`, or is below it.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        if self.key.starts_with(&other.key) {
            return true;
        }
        let Some(deepest) = other.trail.last() else { return false };
        // Compare missing parts by name, from the deepest existing folder on.
        let missing = other.key.get(other.trail.len()..).unwrap_or_default();
        let mut numbered = self.trail.iter().enumerate().filter(|(_, identity)| *identity == deepest);
        numbered.any(|(index, _)| self.key.get(index + 1..).is_some_and(|rest| rest.starts_with(missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(path: &str, numbers: &[u64]) -> PathIdentity {
        let trail = numbers.iter().map(|number| FileId { device: 1, number: *number }).collect();
        PathIdentity::new(Path::new(path), trail)
    }

    #[test]
    fn a_path_is_below_another_by_name_or_by_what_is_there() {
        let (one, other) = (identity("/ws/m1/x", &[1, 2]), identity("/ws/m2/x", &[1, 2]));
        assert!(one.is_below(&other) && other.is_below(&one), "neither exists, and both would be one");
        assert!(
            identity("/ws/m2/x/y", &[1, 2]).is_below(&one) && !one.is_below(&identity("/ws/m2/x/y", &[1, 2]))
        );
        assert!(!identity("/ws/m2/z", &[1, 2]).is_below(&one), "another name in the same folder");
        assert!(identity("/ws/m2/x/y", &[1, 2, 3]).is_below(&identity("/ws/m1/x", &[1, 2, 3])), "both exist");
        assert!(
            identity("/ws/a", &[1, 9]).is_below(&identity("/ws", &[1]))
                && !identity("/ws", &[1]).is_below(&one)
        );
        assert!(
            identity("/ws/X/y", &[]).is_below(&identity("/ws/x", &[]))
                && !identity("/ws/y", &[]).is_below(&one)
        );
    }
}
