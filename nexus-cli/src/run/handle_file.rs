//! The file that a kept conversation's handle goes into.

use std::{
    fs::{self, File},
    io::{self, BufReader, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use nexus::ResumeHandle;
use tempfile::NamedTempFile;

/// Reads the handle of a kept conversation.
pub(super) fn read(path: &Path) -> Result<ResumeHandle, String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        format!("{}: not a conversation's handle, as `--keep` writes it: {error}", path.display())
    })
}

/// A place for a handle, made ready before the turn: a turn that is paid for must not end without its conversation.
///
/// The handle names a conversation on this machine, so only its owner may read it (mode 0600). What stood in the file before stays
/// until the new handle is complete.
#[derive(Debug)]
pub(super) struct HandleFile {
    path: PathBuf,
    draft: NamedTempFile,
}

impl HandleFile {
    /// Makes sure that the file can be written, and holds nothing but a handle.
    pub(super) fn prepare(path: &Path) -> Result<Self, String> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let error = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return Err(error(&"this is a folder; name a file for the conversation's handle"));
            }
            // An empty one was made for this.
            Ok(found) if found.is_file() && (found.len() == 0 || read(path).is_ok()) => {}
            Ok(_) => {
                return Err(error(
                    &"what is there is no conversation's handle, and stays; name another file",
                ));
            }
            Err(reason) if reason.kind() == ErrorKind::NotFound => {}
            Err(reason) => return Err(error(&reason)),
        }
        // Of mode 0600 wherever there are modes.
        let draft = NamedTempFile::new_in(folder).map_err(|reason| error(&reason))?;
        Ok(Self { path: path.to_owned(), draft })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the handle in place of what was there.
    pub(super) fn write(mut self, handle: &ResumeHandle) -> io::Result<()> {
        serde_json::to_writer(&mut self.draft, handle)?;
        self.draft.flush()?;
        self.draft.as_file().sync_all()?;
        self.draft.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}
