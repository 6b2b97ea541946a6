//! Files of workspaces: [`nexus_files`] with workspace errors.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::Path,
};

use super::{WorkspaceError, WorkspaceErrorKind};

/// Maximum number of attempts to open a file that other processes create and delete.
const ATTEMPTS: usize = 100;

/// Opens a regular file at the path itself. Fails for a link.
pub(super) fn open(path: &Path, options: &OpenOptions) -> Result<File, WorkspaceError> {
    nexus_files::open_regular(path, options).map_err(|error| failed(path, "cannot be opened", error))
}

/// Like [`open`], but creates a missing file. Returns true if it did.
pub(super) fn open_or_create(path: &Path, options: &mut OpenOptions) -> Result<(File, bool), WorkspaceError> {
    // Another process may create or delete the file between the two calls.
    for _ in 0..ATTEMPTS {
        match open(path, options) {
            Err(error) if error.kind() == WorkspaceErrorKind::NotFound => {}
            opened => return opened.map(|file| (file, false)),
        }
        match nexus_files::open_regular(path, options.clone().create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => {
                let created = created.map_err(|error| failed(path, "cannot be made", error));
                return created.map(|file| (file, true));
            }
        }
    }
    Err(WorkspaceError::new(
        WorkspaceErrorKind::InUse,
        path,
        "is deleted repeatedly: find the program that \
        deletes it",
    ))
}

/// Reads a whole file of at most `max_bytes`.
pub(super) fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, WorkspaceError> {
    match nexus_files::read_bounded(path, max_bytes) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err(failed(path, "cannot be opened", io::ErrorKind::NotFound.into())),
        Err(error) if error.kind() == io::ErrorKind::InvalidData && is_regular(path) => {
            let reason =
                format!("has more than {max_bytes} bytes, the limit for a file of a workspace: move it away");
            Err(WorkspaceError::new(WorkspaceErrorKind::Malformed { line: 1, column: 1 }, path, reason))
        }
        Err(error) => Err(failed(path, "cannot be read", error)),
    }
}

/// Replaces a file of `folder` in one step.
pub(super) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), WorkspaceError> {
    let path = folder.join(name);
    nexus_files::replace(&path, bytes)
        .map_err(|error| WorkspaceError::from_io(&path, "cannot be written", error))
}

/// Flushes a folder's entries to the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), WorkspaceError> {
    nexus_files::sync_folder(folder)
        .map_err(|error| WorkspaceError::from_io(folder, "cannot be flushed to the disk", error))
}

/// Returns the error for an unusable file. It names what is at the path, if that is not a file.
pub(super) fn failed(path: &Path, action: &str, error: io::Error) -> WorkspaceError {
    let found = fs::symlink_metadata(path).map(|found| found.file_type());
    let what = match found {
        Ok(kind) if error.kind() == io::ErrorKind::InvalidData && !kind.is_file() => match kind {
            kind if kind.is_dir() => "a folder",
            kind if kind.is_symlink() => "a symbolic link",
            _ => "a pipe, a socket or a device",
        },
        _ => return WorkspaceError::from_io(path, action, error),
    };
    let reason = format!("is {what}, but a workspace needs a file: move it away");
    WorkspaceError::new(WorkspaceErrorKind::NotAWorkspace, path, reason)
}

fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}
