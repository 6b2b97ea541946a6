//! The lock under which a workspace is written: one writer at a time, threads and processes alike.
//!
//! It is the operating system's lock on the file `.lock`, which it takes back from a process that dies. The file itself
//! says nothing and is never deleted.

use std::{
    cell::RefCell,
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use super::{
    error::{WorkspaceError, WorkspaceErrorKind},
    file,
};

/// The file that is locked.
pub(super) const NAME: &str = ".lock";
/// How soon a lock that is taken is tried again: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

thread_local! {
    /// The locks of this thread, which would wait for itself.
    static HELD: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
}

/// The right to write to one workspace, until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock of the workspace in `folder`; waits for it, if others have it, for as long as `patience`.
    pub(super) fn take(folder: &Path, patience: Duration) -> Result<Self, WorkspaceError> {
        let path = folder.join(NAME);
        if is_held_here(folder) {
            let reason = "is held by this very thread, inside a change: do one after the other";
            return Err(WorkspaceError::new(WorkspaceErrorKind::InUse, &path, reason));
        }
        let began = Instant::now();
        let mut pause = PAUSES[0];
        loop {
            if let Some(lock) = Self::try_take(path.clone())? {
                return Ok(lock);
            }
            if began.elapsed() >= patience {
                let reason =
                    format!("has been held by another writer for {} ms: try again", patience.as_millis());
                return Err(WorkspaceError::new(WorkspaceErrorKind::InUse, &path, reason));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    fn try_take(path: PathBuf) -> Result<Option<Self>, WorkspaceError> {
        let failed = |error| WorkspaceError::from_io(&path, "cannot be locked", error);
        let (file, _) = file::open_or_make(&path, OpenOptions::new().read(true).write(true))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Ok(()) => {}
        }
        // Whoever tidied up may have deleted it before we had the lock; then others lock another file.
        let is_there = fs::symlink_metadata(&path)
            .and_then(|found| Ok(file::is_same(&found, &file.metadata()?)))
            .unwrap_or(false);
        if !is_there {
            return Ok(None);
        }
        HELD.with_borrow_mut(|held| held.push(path.clone()));
        Ok(Some(Self { file, path }))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        HELD.with_borrow_mut(|held| held.retain(|path| *path != self.path));
        // Closing would not do while a process that was just forked has a copy of the handle.
        let _ = self.file.unlock();
    }
}

/// Whether this thread holds the lock of the workspace in `folder`.
pub(super) fn is_held_here(folder: &Path) -> bool {
    let path = folder.join(NAME);
    HELD.with_borrow(|held| held.contains(&path))
}
