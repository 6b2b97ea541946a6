//! Types shared by the implementations that open files.

use std::{fs::File, io, path::Path};

/// Handling of existing content when a file is opened for writing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// Creates the file, which must not exist.
    New,
    /// Creates the file if it does not exist. Retains existing content, and writes from the start.
    Keep,
    /// Creates the file if it does not exist. Retains existing content, and writes at the end.
    Append,
    /// Creates the file if it does not exist. Removes existing content.
    Empty,
}

/// One entry of a folder.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Name of the entry.
    pub name: String,
    /// Kind of the entry.
    pub kind: EntryKind,
}

impl FolderEntry {
    pub(super) fn new(name: String, kind: EntryKind) -> Self {
        Self { name, kind }
    }
}

/// Kind of a folder's entry.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, with any target.
    Link,
    /// Any other kind, such as a pipe or a device.
    Other,
}

/// One name in a folder.
#[derive(Debug)]
pub(super) enum Listed {
    Entry(FolderEntry),
    /// A name that is not Unicode.
    Unnamed,
}

/// Content that a write of a whole file may replace.
#[derive(Clone, Copy)]
pub(super) enum Over<'o> {
    /// Any content.
    Anything,
    /// No content: the file must not exist.
    Nothing,
    /// Only a file for which this function returns true.
    #[cfg_attr(not(feature = "files"), allow(dead_code))]
    Matching(&'o dyn Fn(File) -> io::Result<bool>),
}

/// Reason why a file cannot be used, without its path.
#[derive(Debug)]
pub(super) enum OpenFailure {
    /// The file changed after the check. The caller may check it again.
    Changed,
    /// The content differs from the expected content.
    Stale,
    Denied(String),
    Io(io::Error),
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Opens files at real paths that were checked a moment ago. Each implementation checks the opened file
/// again.
pub(super) trait Opener {
    fn open(&self, real: &Path) -> Result<File, OpenFailure>;
    fn open_for_writing(&self, real: &Path, mode: WriteMode) -> Result<File, OpenFailure>;
    fn replace(&self, real: &Path, content: &[u8], over: Over<'_>) -> Result<(), OpenFailure>;
    /// Passes one name after the other to `each`, until `each` returns false. Leaves out protected names.
    fn list(&self, real: &Path, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), OpenFailure>;
    fn create_folder(&self, real: &Path) -> Result<(), OpenFailure>;
    fn remove_file(&self, real: &Path) -> Result<(), OpenFailure>;
    /// Removes a folder with its content.
    fn remove_folder(&self, real: &Path) -> Result<(), OpenFailure>;
    fn set_executable(&self, real: &Path, is_executable: bool) -> Result<(), OpenFailure>;
}
