//! Number and sizes of the files that will be read, collected before a byte is read.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use nexus_files::ReadableSize;

use super::{TreeError, TreeErrorKind, TreeLimits, refusal::to_path};

/// Number of the largest files that a message names.
const NAMED: usize = 3;

/// Files that are about to be read for a tree.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeReading {
    /// Number of files.
    pub files: usize,
    /// Size of all files together, in bytes.
    pub bytes: u64,
    /// The largest files, largest first, each with its size.
    pub largest: Vec<(PathBuf, u64)>,
}

impl TreeReading {
    /// Adds a file. Fails with [`TooLarge`](TreeErrorKind::TooLarge) if the file or the total exceeds a limit.
    pub(super) fn add(&mut self, path: &[u8], bytes: u64, limits: &TreeLimits) -> Result<(), TreeError> {
        self.files += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        if bytes > limits.file_bytes || self.bytes > limits.total_bytes {
            let message = format!(
                "{:?} has {bytes} bytes, {} with the files before it: the limits are {} for one file and {} \
                in total",
                to_path(path),
                self.bytes,
                limits.file_bytes,
                limits.total_bytes
            );
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        let place = self.largest.partition_point(|(_, other)| *other >= bytes);
        if place < NAMED {
            self.largest.insert(place, (to_path(path), bytes));
            self.largest.truncate(NAMED);
        }
        Ok(())
    }
}

impl fmt::Display for TreeReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} {files} of {}", self.files, ReadableSize(self.bytes))
    }
}

/// Bound on the files that are read for a tree without the consent of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadBound {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl ReadBound {
    /// Fails with [`NeedsConsent`](TreeErrorKind::NeedsConsent) for more than the bound.
    pub(super) fn check(self, folder: &Path, reading: &TreeReading) -> Result<(), TreeError> {
        if reading.files <= self.files && reading.bytes <= self.bytes {
            return Ok(());
        }
        let largest: Vec<_> = reading
            .largest
            .iter()
            .map(|(path, bytes)| format!("{} ({})", path.display(), ReadableSize(*bytes)))
            .collect();
        let message = format!(
            "{reading} in {folder:?} would be read, but without consent the limits are {} files of {}; the \
            largest: {}",
            self.files,
            ReadableSize(self.bytes),
            largest.join(", ")
        );
        Err(TreeError::new(TreeErrorKind::NeedsConsent, message))
    }
}

/// Function that is called with the files that will be read.
#[derive(Clone)]
pub(super) struct OnReading(pub(super) Arc<dyn Fn(&TreeReading) + Send + Sync>);

impl fmt::Debug for OnReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReading")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_named_first() {
        let mut reading = TreeReading::default();
        for (path, bytes) in [("a", 1), ("b", 9), ("c", 5), ("d", 9), ("e", 2)] {
            reading.add(path.as_bytes(), bytes, &TreeLimits::default()).unwrap();
        }
        let named: Vec<_> = reading.largest.iter().map(|(path, _)| path.display().to_string()).collect();
        assert_eq!(
            (named.join(" "), reading.to_string()),
            ("b d c".to_owned(), "5 files of 26 bytes".to_owned())
        );
    }
}
