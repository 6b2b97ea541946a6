//! The refresh lock of one login. At most one holder exists among all tasks, threads and processes that can see its
//! folder.
//!
//! The lock is a [`FileLock`] on the file `NAME.lock`.
//!
//! A user may remove the lock file while it is locked. So every holder also has a shared lock on a second file, the
//! guard `.NAME.guard`. A lock file is created only under an exclusive lock on the guard. A second holder is therefore
//! possible only if both files are removed.
//!
//! A file system without locks is an error. An attempt never waits for another holder; the credential manager decides
//! how long to retry.

mod holder;

use std::{
    fs::OpenOptions,
    io::{self, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use nexus_files::{FileLock, lacks_locks, open_regular};

pub(crate) use holder::LockHolder;

use super::store::StoreError;

/// Maximum size of the note about the holder, in bytes.
const MAX_NOTE_BYTES: u64 = 4 << 10;

/// Maximum number of restarts of one attempt after the lock file changed.
const ROUNDS: usize = 4;

/// Refresh lock of one login, identified by the location of its files.
#[derive(Clone, Debug)]
pub(crate) struct RefreshLock {
    folder: PathBuf,
    name: String,
}

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    /// The caller has acquired the lock.
    Acquired(HeldRefreshLock),
    /// Another task or process holds the lock. `None` if the holder is unknown.
    Busy(Option<LockHolder>),
}

/// The acquired refresh lock. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct HeldRefreshLock {
    // Fields are dropped in this order: the lock is released before the guard.
    file: FileLock,
    guard: FileLock,
}

impl RefreshLock {
    /// Creates a lock whose file is `folder/NAME.lock`. The folder is created when it is first needed.
    pub(crate) fn new(folder: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { folder: folder.into(), name: name.into() }
    }

    /// Returns the path of the lock file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    fn guard_path(&self) -> PathBuf {
        self.folder.join(format!(".{}.guard", self.name))
    }

    /// Tries once to acquire the lock.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the lock file cannot be created, opened or locked at all. Then no refresh is allowed.
    pub(crate) fn attempt(&self) -> Result<LockAttempt, StoreError> {
        let path = self.path();
        if !is_name(&self.name) {
            return Err(StoreError::new(
                path.display().to_string(),
                "the login's name is not valid as a file \
                name",
            ));
        }
        self.attempt_at(&path).map_err(|error| StoreError::new(path.display().to_string(), explained(&error)))
    }

    fn attempt_at(&self, path: &Path) -> io::Result<LockAttempt> {
        for _ in 0..ROUNDS {
            nexus_files::make_private_folder(&self.folder)?;
            // While the guard is locked, no process can create a second lock file in place of a removed one.
            let Some(guard) = FileLock::try_lock_shared(&self.guard_path())? else {
                return Ok(LockAttempt::Busy(None));
            };
            let file = match FileLock::try_lock_existing(path) {
                Ok(Some(file)) => file,
                Ok(None) => return Ok(LockAttempt::Busy(read_note(path))),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    // `make_lock_file` locks the guard exclusively, which the shared lock would prevent.
                    drop(guard);
                    if self.make_lock_file(path)? {
                        continue;
                    }
                    return Ok(LockAttempt::Busy(None));
                }
                Err(error) => return Err(error),
            };
            write_note(&file, &LockHolder::here());
            return Ok(LockAttempt::Acquired(HeldRefreshLock { file, guard }));
        }
        Ok(LockAttempt::Busy(None))
    }

    /// Creates the lock file, unless another process holds or attempts this lock. Returns true if the lock file may
    /// exist now.
    fn make_lock_file(&self, path: &Path) -> io::Result<bool> {
        let Some(_guard) = FileLock::try_lock(&self.guard_path())? else { return Ok(false) };
        let mut options = OpenOptions::new();
        open_regular(path, options.write(true).create(true).truncate(false)).map(|_file| true)
    }
}

impl HeldRefreshLock {
    /// Returns true if both paths still lead to the locked files. The manager checks this directly before it spends a
    /// refresh token.
    pub(crate) fn is_held(&self) -> bool {
        self.file.is_current() && self.guard.is_current()
    }
}

/// Returns the reason why the lock cannot be used, with advice.
fn explained(error: &io::Error) -> String {
    if lacks_locks(error) {
        format!(
            "the login cannot be locked: its file system does not support locks ({error}); put NEXUS_HOME on a local \
             file system"
        )
    } else {
        format!("the login cannot be locked: {error}; its folder must belong to this user and be writable")
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Writes the holder into the lock file, for error messages of other processes. If the write fails, the holder stays
/// unnamed.
fn write_note(lock: &FileLock, here: &LockHolder) {
    let mut file = lock.file();
    let note = serde_json::to_vec(here).unwrap_or_default();
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&note));
}

fn read_note(path: &Path) -> Option<LockHolder> {
    let note = nexus_files::read_bounded(path, MAX_NOTE_BYTES).ok().flatten()?;
    serde_json::from_slice(&note).ok()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_file_system_without_locks_is_refused_with_the_way_out() {
        let unsupported = io::Error::from(io::ErrorKind::Unsupported);
        let errnos = [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOLCK, Errno::NOSYS].map(io::Error::from);
        for error in errnos.into_iter().chain([unsupported]) {
            let reason = explained(&error);
            assert!(reason.contains("does not support locks") && reason.contains("NEXUS_HOME"), "{reason}");
        }
        for errno in [Errno::ACCESS, Errno::ROFS, Errno::NOSPC] {
            let reason = explained(&io::Error::from(errno));
            assert!(reason.ends_with("its folder must belong to this user and be writable"), "{reason}");
        }
    }

    #[test]
    fn a_busy_lock_names_its_holder_and_is_free_when_the_holder_drops_it() {
        let scratch = tempfile::tempdir().unwrap();
        let lock = RefreshLock::new(scratch.path().join("auth"), "login");
        let LockAttempt::Acquired(held) = lock.attempt().unwrap() else { panic!("it is free") };
        assert!(held.is_held());
        let LockAttempt::Busy(Some(holder)) = lock.attempt().unwrap() else { panic!("it is held") };
        assert!(holder.to_string().contains(&format!("process {}", std::process::id())), "{holder}");
        drop(held);
        // A process that another test starts has the lock for a moment: files are open in it until it executes its program.
        let began = std::time::Instant::now();
        while !matches!(lock.attempt().unwrap(), LockAttempt::Acquired(_)) {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "the lock is kept");
        }
    }
}
