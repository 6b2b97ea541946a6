//! The write lock of a workspace: one writer at a time, among threads and processes.
//!
//! It is a [`FileLock`] on the file `.lock`, which is empty and never deleted.

use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_files::FileLock;

use super::{
    error::{WorkspaceError, WorkspaceErrorKind},
    file,
};

/// Name of the locked file.
pub(super) const NAME: &str = ".lock";

thread_local! {
    /// Workspaces that this thread has locked. Locking one again would wait for ever.
    static HELD: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// Write lock of one workspace, released on drop.
#[derive(Debug)]
pub(super) struct Lock {
    file: FileLock,
}

impl Lock {
    /// Locks the workspace in `folder`. Waits up to `patience` for another owner.
    pub(super) fn take(folder: &Path, patience: Duration) -> Result<Self, WorkspaceError> {
        let path = folder.join(NAME);
        // This thread would wait for itself until its patience ends.
        if is_held_here(folder) {
            let reason = "is locked by this thread, inside a change: make one change after the other";
            return Err(WorkspaceError::new(WorkspaceErrorKind::InUse, &path, reason));
        }
        let locked = FileLock::lock(&path, patience)
            .map_err(|error| file::failed(&path, "cannot be locked", error))?;
        let Some(file) = locked else {
            let reason =
                format!("has been locked by another writer for {} ms: try again", patience.as_millis());
            return Err(WorkspaceError::new(WorkspaceErrorKind::InUse, &path, reason));
        };
        HELD.with_borrow_mut(|held| held.push(path));
        Ok(Self { file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.retain(|path| path != self.file.path()));
    }
}

/// Returns true if this thread owns the lock of the workspace in `folder`.
pub(super) fn is_held_here(folder: &Path) -> bool {
    let path = folder.join(NAME);
    HELD.with_borrow(|held| held.contains(&path))
}
