//! Parts of a scope's write paths, for concurrent work.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ScopeError, path_identity::PathIdentity, path_policy::PathPolicy, path_walk::walk};

/// Writable paths of one of several participants, under a name for errors.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteSlice {
    /// Name of the participant.
    pub name: String,
    /// Writable paths: relative to the scope's root, or absolute.
    pub paths: Vec<PathBuf>,
}

impl WriteSlice {
    /// Creates the slice of the participant `name`, with these paths.
    pub fn new<P: Into<PathBuf>>(name: impl Into<String>, paths: impl IntoIterator<Item = P>) -> Self {
        Self { name: name.into(), paths: paths.into_iter().map(Into::into).collect() }
    }
}

/// Path of a slice, and its form for comparison.
struct SlicePath<'s> {
    slice: &'s WriteSlice,
    path: PathBuf,
    spot: PathIdentity,
}

impl PathPolicy {
    /// Returns the real paths of a slice. Each must be inside of a write path.
    pub(super) fn slice(&self, slice: &[PathBuf], name: Option<&str>) -> Result<Vec<PathBuf>, ScopeError> {
        let mut found = Vec::new();
        for (index, path) in slice.iter().enumerate() {
            let place = || match name {
                Some(name) => format!("path {} of the slice {name:?}", index + 1),
                None => format!("path {} of the slice", index + 1),
            };
            let wrong = |problem: String| ScopeError::Path { place: place(), path: path.clone(), problem };
            let real = Self::grant(&self.root, path, place)?;
            if !self.write.iter().any(|grant| real.starts_with(grant)) {
                return Err(wrong("is outside the write paths that are sliced".to_owned()));
            }
            if let Some(rule) = self.rules.rule_against(&real) {
                return Err(wrong(format!("must not be touched (rule {:?})", rule.as_str())));
            }
            found.push(real);
        }
        Ok(found)
    }

    /// Checks that each slice is inside of the write paths, and that no two slices overlap.
    pub(super) fn check_slices(&self, slices: &[WriteSlice]) -> Result<(), ScopeError> {
        let mut pieces: Vec<SlicePath<'_>> = Vec::new();
        for slice in slices {
            // Paths of one slice may overlap. Only paths of earlier slices are compared.
            let own = pieces.len();
            for path in self.slice(&slice.paths, Some(&slice.name))? {
                let piece = SlicePath::new(slice, path);
                let others = pieces.get(..own).unwrap_or_default();
                if let Some((other, path)) =
                    others.iter().find_map(|other| Some((other, piece.shared(other)?)))
                {
                    return Err(ScopeError::Overlap {
                        first: other.slice.name.clone(),
                        second: slice.name.clone(),
                        path: path.clone(),
                    });
                }
                pieces.push(piece);
            }
        }
        Ok(())
    }
}

impl<'s> SlicePath<'s> {
    fn new(slice: &'s WriteSlice, path: PathBuf) -> Self {
        let spot = walk(&path).map_or_else(|_| PathIdentity::by_name(&path), |walked| walked.path_identity());
        Self { slice, path, spot }
    }

    /// Returns the overlap of two paths: the deeper one, if it equals the other or lies below it.
    fn shared<'p>(&'p self, other: &'p Self) -> Option<&'p PathBuf> {
        match (self.spot.is_below(&other.spot), other.spot.is_below(&self.spot)) {
            (true, _) => Some(&self.path),
            (false, true) => Some(&other.path),
            (false, false) => None,
        }
    }
}
