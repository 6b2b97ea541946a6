//! Identity of a file in its file system.

use std::fs::Metadata;

/// Identity of a file, equal under all of its names: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    pub(super) device: u64,
    pub(super) number: u64,
}

#[cfg(unix)]
impl FileId {
    pub(super) fn of(metadata: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self { device: metadata.dev(), number: metadata.ino() })
    }
}

#[cfg(not(unix))]
impl FileId {
    pub(super) fn of(_: &Metadata) -> Option<Self> {
        None
    }
}
