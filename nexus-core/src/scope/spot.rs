//! Whether one place is another, or below it, whatever the file system calls them.

use std::path::Path;

use super::{path_key::key_of, path_walk::Identity};

/// A place: by its names, as the laxest file system reads them, and by what of it is really there. A folder can be
/// mounted twice.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    key: Vec<String>,
    /// One for each name that exists, from the root of the file system down.
    trail: Vec<Identity>,
}

impl Spot {
    /// `path` is real, and `trail` has one for each of its names that exists.
    pub(super) fn new(path: &Path, trail: Vec<Identity>) -> Self {
        Self { key: key_of(path), trail }
    }

    /// A place of which no more than the names is known.
    pub(super) fn by_name(path: &Path) -> Self {
        Self::new(path, Vec::new())
    }

    /// Whether it is `other`, or below it.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        if self.key.starts_with(&other.key) {
            return true;
        }
        let Some(deepest) = other.trail.last() else { return false };
        // What of the other does not exist yet is compared by name, from the deepest folder on that does.
        let missing = other.key.get(other.trail.len()..).unwrap_or_default();
        let mut numbered = self.trail.iter().enumerate().filter(|(_, identity)| *identity == deepest);
        numbered.any(|(place, _)| self.key.get(place + 1..).is_some_and(|rest| rest.starts_with(missing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(path: &str, numbers: &[u64]) -> Spot {
        let trail = numbers.iter().map(|number| Identity { device: 1, number: *number }).collect();
        Spot::new(Path::new(path), trail)
    }

    #[test]
    fn a_place_is_below_another_by_name_or_by_what_is_there() {
        let (one, other) = (spot("/ws/m1/x", &[1, 2]), spot("/ws/m2/x", &[1, 2]));
        assert!(one.is_below(&other) && other.is_below(&one), "neither exists, and both would be one");
        assert!(spot("/ws/m2/x/y", &[1, 2]).is_below(&one) && !one.is_below(&spot("/ws/m2/x/y", &[1, 2])));
        assert!(!spot("/ws/m2/z", &[1, 2]).is_below(&one), "another name in the same folder");
        assert!(spot("/ws/m2/x/y", &[1, 2, 3]).is_below(&spot("/ws/m1/x", &[1, 2, 3])), "both exist");
        assert!(spot("/ws/a", &[1, 9]).is_below(&spot("/ws", &[1])) && !spot("/ws", &[1]).is_below(&one));
        assert!(spot("/ws/X/y", &[]).is_below(&spot("/ws/x", &[])) && !spot("/ws/y", &[]).is_below(&one));
    }
}
