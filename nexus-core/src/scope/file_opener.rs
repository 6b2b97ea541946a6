//! Shared parts of the ways to open files.

use std::{fs::File, io, path::Path};

/// Treatment of a file that is opened for writing.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// It is made, and must not exist.
    New,
    /// It is made if it does not exist; what is in it stays, and writing begins at its start.
    Keep,
    /// It is made if it does not exist; what is in it stays, and all writing goes to its end.
    Append,
    /// It is made if it does not exist; what is in it goes.
    Empty,
}

/// One entry of a folder.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// Its kind.
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
    /// A symbolic link, wherever it leads.
    Link,
    /// Something else.
    Other,
}

/// One name of a folder.
#[derive(Debug)]
pub(super) enum Listed {
    Entry(FolderEntry),
    /// A name that is not Unicode.
    Unnamed,
}

/// Content that writing a whole file may replace.
#[derive(Clone, Copy)]
pub(super) enum Over<'o> {
    /// Any content.
    Anything,
    /// Nothing: there must be no such file.
    Nothing,
    /// A file of which this is true, and no other.
    #[cfg_attr(not(feature = "files"), allow(dead_code))]
    Matching(&'o dyn Fn(File) -> io::Result<bool>),
}

/// Reason why a file cannot be used, without its path.
#[derive(Debug)]
pub(super) enum OpenFailure {
    /// It is not what was checked any more. It may be checked again.
    Changed,
    /// Its content is not what was expected.
    Stale,
    Denied(String),
    Io(io::Error),
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A way to files at real paths that were checked a moment ago. Each is checked again.
pub(super) trait Opener {
    fn open(&self, real: &Path) -> Result<File, OpenFailure>;
    fn open_for_writing(&self, real: &Path, mode: WriteMode) -> Result<File, OpenFailure>;
    fn replace(&self, real: &Path, content: &[u8], over: Over<'_>) -> Result<(), OpenFailure>;
    /// Hands over one name after the other, until `each` says no. What is kept off is left out.
    fn list(&self, real: &Path, each: &mut dyn FnMut(Listed) -> bool) -> Result<(), OpenFailure>;
    fn create_folder(&self, real: &Path) -> Result<(), OpenFailure>;
    fn remove_file(&self, real: &Path) -> Result<(), OpenFailure>;
    /// Removes a folder with all that is in it.
    fn remove_folder(&self, real: &Path) -> Result<(), OpenFailure>;
    fn set_executable(&self, real: &Path, is_executable: bool) -> Result<(), OpenFailure>;
}
