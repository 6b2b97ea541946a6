//! The refresh lock of one login: at most one holder among all tasks, threads and processes that can see its folder.
//!
//! It is the kernel's lock ([`File::try_lock`]) on the file `NAME.lock`. Each attempt opens the file anew, so the lock
//! also excludes other tasks of the same process. The kernel frees it when its holder ends, however that ends.
//!
//! A user may remove the lock file while it is held. So every holder also shares a lock on a second file, the guard
//! `.NAME.guard`, and a lock file is created only under an exclusive lock on the guard: a new lock file cannot appear
//! beside a holder unless both files are removed.
//!
//! A file system without locks is refused with an error. An attempt never waits for another holder; how long to try
//! is left to the credential manager.

mod holder;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::io::Errno;

pub(crate) use holder::LockHolder;

use super::store::StoreError;

/// Largest note about the holder that is read, in bytes.
const MAX_NOTE_BYTES: u64 = 4 << 10;

/// How often one attempt starts over because the file changed under it.
const ROUNDS: usize = 4;

/// The refresh lock of one login, by the place of its files.
#[derive(Clone, Debug)]
pub(crate) struct RefreshLock {
    folder: PathBuf,
    name: String,
}

/// The result of one attempt.
#[derive(Debug)]
pub(crate) enum LockAttempt {
    /// The lock is ours.
    Acquired(HeldRefreshLock),
    /// Another task or process has it; `None` where the holder is unknown.
    Busy(Option<LockHolder>),
}

/// The refresh lock, held. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct HeldRefreshLock {
    // Fields are dropped in this order: the lock goes before the guard.
    file: LockedFile,
    guard: LockedFile,
    lock: RefreshLock,
}

/// An open file with a lock on it.
///
/// Dropped, it is unlocked explicitly. Closing it would not be enough: a child that was forked a moment ago holds a
/// copy of the descriptor until it executes its program.
#[derive(Debug)]
struct LockedFile(File);

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl RefreshLock {
    /// The lock file is `folder/NAME.lock`. The folder is made when it is needed.
    pub(crate) fn new(folder: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { folder: folder.into(), name: name.into() }
    }

    /// The lock file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    fn guard_path(&self) -> PathBuf {
        self.folder.join(format!(".{}.guard", self.name))
    }

    /// Tries once.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the lock file cannot be made, opened or locked at all. Nothing may be refreshed then.
    pub(crate) fn attempt(&self) -> Result<LockAttempt, StoreError> {
        let path = self.path();
        if !is_name(&self.name) {
            return Err(StoreError::new(path.display().to_string(), "the login's name is not a file's name"));
        }
        self.attempt_at(&path).map_err(|error| StoreError::new(path.display().to_string(), explained(&error)))
    }

    fn attempt_at(&self, path: &Path) -> io::Result<LockAttempt> {
        for _ in 0..ROUNDS {
            let Some(guard) = locked(self.open_guard()?, File::try_lock_shared)? else {
                return Ok(LockAttempt::Busy(None));
            };
            if !is_at(&guard.0, &self.guard_path()) {
                continue;
            }
            let mut file = match open_lock_file(path, false) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    drop(guard);
                    if self.make_lock_file(path)? {
                        continue;
                    }
                    return Ok(LockAttempt::Busy(None));
                }
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Busy(read_note(&mut file))),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let mut file = LockedFile(file);
            // The file may have been removed between open and lock: then the next process locks another one.
            if !is_at(&file.0, path) {
                continue;
            }
            write_note(&mut file.0, &LockHolder::here());
            return Ok(LockAttempt::Acquired(HeldRefreshLock { file, guard, lock: self.clone() }));
        }
        Ok(LockAttempt::Busy(None))
    }

    fn open_guard(&self) -> io::Result<File> {
        match open_lock_file(&self.guard_path(), true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
                open_lock_file(&self.guard_path(), true)
            }
            other => other,
        }
    }

    /// Creates the lock file, unless another process holds this lock or tries to. Returns whether it may exist now.
    fn make_lock_file(&self, path: &Path) -> io::Result<bool> {
        let Some(guard) = locked(self.open_guard()?, File::try_lock)? else { return Ok(false) };
        if !is_at(&guard.0, &self.guard_path()) {
            return Ok(false);
        }
        open_lock_file(path, true).map(|_file| true)
    }
}

impl HeldRefreshLock {
    /// Whether both files are still the ones that others find: asked right before a refresh token is spent.
    pub(crate) fn is_held(&self) -> bool {
        is_at(&self.file.0, &self.lock.path()) && is_at(&self.guard.0, &self.lock.guard_path())
    }
}

/// Locks a file without waiting; `None` if another holder has it.
fn locked(
    file: File,
    lock: impl FnOnce(&File) -> Result<(), TryLockError>,
) -> io::Result<Option<LockedFile>> {
    match lock(&file) {
        Ok(()) => Ok(Some(LockedFile(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Why the lock cannot be used, and the way out.
fn explained(error: &io::Error) -> String {
    let is_without_locks = error.kind() == io::ErrorKind::Unsupported
        // NFS without a lock manager says NOLCK, for which std has no kind.
        || matches!(Errno::from_io_error(error), Some(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS));
    if is_without_locks {
        format!(
            "the login cannot be locked: its file system does not support locks ({error}); put NEXUS_HOME on a local \
             file system"
        )
    } else {
        format!("the login cannot be locked: {error}; its folder has to be ours, and writable")
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn open_lock_file(path: &Path, create: bool) -> io::Result<File> {
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_links)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// Whether `file` is the one that others find at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Writes the holder into the file, for error messages of others. A failure leaves the holder unnamed.
fn write_note(file: &mut File, here: &LockHolder) {
    let note = serde_json::to_vec(here).unwrap_or_default();
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&note));
}

fn read_note(file: &mut File) -> Option<LockHolder> {
    let mut note = Vec::new();
    file.take(MAX_NOTE_BYTES).read_to_end(&mut note).ok()?;
    serde_json::from_slice(&note).ok()
}

#[cfg(test)]
mod tests {
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
            assert!(reason.ends_with("its folder has to be ours, and writable"), "{reason}");
        }
    }

    #[test]
    fn an_attempt_that_cannot_lock_is_an_error_and_not_a_busy_lock() {
        let file = tempfile::tempfile().unwrap();
        let without_locks = |_: &File| Err(TryLockError::Error(io::Error::from(Errno::NOLCK)));
        assert!(locked(file.try_clone().unwrap(), without_locks).is_err());
        assert!(
            locked(file.try_clone().unwrap(), |_: &File| Err(TryLockError::WouldBlock)).unwrap().is_none()
        );
        assert!(locked(file, File::try_lock).unwrap().is_some());
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
