//! The operating system's lock on a file.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::open::{is_same_file, open_regular};

/// First and longest pause between two attempts at a taken lock.
const PAUSES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

/// Maximum number of attempts at a file that is replaced between opening and locking it.
const ROUNDS: usize = 100;

/// A lock on a file or folder, released on drop.
///
/// It excludes other threads and processes of this machine. The operating system releases the lock when its process dies. The file stays
/// after a release, unless [`remove`](Self::remove) is called.
///
/// If another process removes or replaces the file before it is locked, the call locks the new one.
///
/// On a file system without locks, all calls fail: see [`lacks_locks`].
#[derive(Debug)]
pub struct FileLock {
    file: File,
    path: PathBuf,
}

#[derive(Clone, Copy)]
enum Sharing {
    Exclusive,
    Shared,
}

impl FileLock {
    /// Locks the file at `path`, and creates it if it is missing. Its folder must exist. Returns `None` if the lock is taken.
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the path is not a regular file. Otherwise the error of the file system.
    pub fn try_lock(path: &Path) -> io::Result<Option<Self>> {
        Self::attempt(path, Sharing::Exclusive, open_or_create)
    }

    /// Takes a shared lock by the rules of [`try_lock`](Self::try_lock). It excludes exclusive locks only.
    ///
    /// # Errors
    ///
    /// Errors of [`try_lock`](Self::try_lock).
    pub fn try_lock_shared(path: &Path) -> io::Result<Option<Self>> {
        Self::attempt(path, Sharing::Shared, open_or_create)
    }

    /// Locks an existing file by the rules of [`try_lock`](Self::try_lock).
    ///
    /// # Errors
    ///
    /// [`NotFound`](io::ErrorKind::NotFound) if it is missing. Otherwise errors of [`try_lock`](Self::try_lock).
    pub fn try_lock_existing(path: &Path) -> io::Result<Option<Self>> {
        Self::attempt(path, Sharing::Exclusive, open_existing)
    }

    /// Locks an existing folder without writing to it. Follows links. Returns `None` if the lock is taken.
    ///
    /// # Errors
    ///
    /// The error of the file system, such as [`NotFound`](io::ErrorKind::NotFound).
    pub fn try_lock_folder(path: &Path) -> io::Result<Option<Self>> {
        Self::attempt(path, Sharing::Exclusive, open_folder)
    }

    /// Locks a file that the caller opened at `path`. Returns `None` if the lock is taken, or if the path now has another file.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn try_lock_open(path: &Path, file: File) -> io::Result<Option<Self>> {
        if !take(&file, Sharing::Exclusive)? {
            return Ok(None);
        }
        let lock = Self { file, path: path.to_owned() };
        Ok(lock.is_current().then_some(lock))
    }

    /// Locks a file by the rules of [`try_lock`](Self::try_lock). Blocks the thread for up to `patience` while the lock is taken.
    ///
    /// # Errors
    ///
    /// Errors of [`try_lock`](Self::try_lock).
    pub fn lock(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        Self::wait(patience, || Self::try_lock(path))
    }

    /// Takes a shared lock by the rules of [`try_lock`](Self::try_lock). Blocks the thread for up to `patience` while an exclusive lock is
    /// taken.
    ///
    /// # Errors
    ///
    /// Errors of [`try_lock`](Self::try_lock).
    pub fn lock_shared(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        Self::wait(patience, || Self::try_lock_shared(path))
    }

    /// Locks a folder by the rules of [`try_lock_folder`](Self::try_lock_folder). Blocks the thread for up to `patience` while the lock is
    /// taken.
    ///
    /// # Errors
    ///
    /// Errors of [`try_lock_folder`](Self::try_lock_folder).
    pub fn lock_folder(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        Self::wait(patience, || Self::try_lock_folder(path))
    }

    /// Returns true if another thread or process has an exclusive lock on the file. A missing file is not locked, and is not created.
    ///
    /// # Errors
    ///
    /// Errors of [`try_lock`](Self::try_lock).
    pub fn is_locked(path: &Path) -> io::Result<bool> {
        let file = match open_regular(path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            opened => opened?,
        };
        // Take a shared lock for the check, so that two concurrent checks do not report each other as an owner.
        let is_free = take(&file, Sharing::Shared)?;
        if is_free {
            let _ = file.unlock();
        }
        Ok(!is_free)
    }

    /// Returns the locked file, opened for reading and writing.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the lock.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the locked file is still at its path. A person or a cleanup program may have removed it.
    pub fn is_current(&self) -> bool {
        is_same_file(&self.file, &self.path)
    }

    /// Removes the file and releases the lock. Processes that wait for the lock then lock a new file.
    ///
    /// # Errors
    ///
    /// The error of the file system. The lock is released anyway.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    fn attempt(
        path: &Path,
        sharing: Sharing,
        open: impl Fn(&Path) -> io::Result<File>,
    ) -> io::Result<Option<Self>> {
        for _ in 0..ROUNDS {
            let file = open(path)?;
            if !take(&file, sharing)? {
                return Ok(None);
            }
            let lock = Self { file, path: path.to_owned() };
            if lock.is_current() {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    fn wait(patience: Duration, attempt: impl Fn() -> io::Result<Option<Self>>) -> io::Result<Option<Self>> {
        let start = Instant::now();
        let mut pause = PAUSES[0];
        loop {
            if let Some(lock) = attempt()? {
                return Ok(Some(lock));
            }
            if start.elapsed() >= patience {
                return Ok(None);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlock explicitly, because closing the file is not enough. A child that was forked a moment ago has a copy of the descriptor
        // until it executes its program.
        let _ = self.file.unlock();
    }
}

fn take(file: &File, sharing: Sharing) -> io::Result<bool> {
    granted(match sharing {
        Sharing::Exclusive => file.try_lock(),
        Sharing::Shared => file.try_lock_shared(),
    })
}

/// Returns true if an error of [`FileLock`] means that the file system does not support locks.
pub fn lacks_locks(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        // An NFS client returns NOLCK without a lock manager, and BADF for a folder, which cannot be opened for writing.
        let errno = Errno::from_io_error(error);
        if matches!(errno, Some(Errno::NOTSUP | Errno::NOLCK | Errno::NOSYS | Errno::BADF)) {
            return true;
        }
    }
    error.kind() == io::ErrorKind::Unsupported
}

/// Returns true if the lock was granted. A file system without locks is an error.
fn granted(attempt: Result<(), TryLockError>) -> io::Result<bool> {
    match attempt {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

fn open_or_create(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

fn open_existing(path: &Path) -> io::Result<File> {
    open_regular(path, OpenOptions::new().read(true).write(true))
}

fn open_folder(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::DIRECTORY.bits().cast_signed(),
    );
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_has_an_exclusive_lock_and_several_share_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let exclusive = FileLock::try_lock(&path).unwrap().unwrap();
        assert!(FileLock::try_lock(&path).unwrap().is_none());
        assert!(FileLock::try_lock_shared(&path).unwrap().is_none());
        assert!(FileLock::try_lock_existing(&path).unwrap().is_none());
        assert!(FileLock::is_locked(&path).unwrap());
        assert!(FileLock::lock(&path, Duration::from_millis(3)).unwrap().is_none());
        drop(exclusive);
        assert!(!FileLock::is_locked(&path).unwrap());
        let shared = FileLock::try_lock_shared(&path).unwrap().unwrap();
        assert!(FileLock::try_lock_shared(&path).unwrap().is_some());
        assert!(FileLock::try_lock(&path).unwrap().is_none());
        assert!(!FileLock::is_locked(&path).unwrap(), "a shared lock excludes no reader");
        drop(shared);
        assert!(FileLock::lock(&path, Duration::ZERO).unwrap().is_some());
    }

    #[test]
    fn a_lock_on_an_existing_file_creates_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(!FileLock::is_locked(&path).unwrap());
        assert_eq!(FileLock::try_lock_existing(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(!path.exists());
        FileLock::try_lock(&path).unwrap().unwrap().remove().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_lock_is_on_the_file_that_is_at_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let old = FileLock::try_lock(&path).unwrap().unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!old.is_current());
        let new = FileLock::try_lock(&path).unwrap().unwrap();
        assert!(new.is_current());
        fs::remove_file(&path).unwrap();
        let file = open_or_create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(FileLock::try_lock_open(&path, file).unwrap().is_none(), "the file is gone");
    }

    #[test]
    fn a_file_system_without_locks_is_an_error_and_no_taken_lock() {
        assert!(granted(Ok(())).unwrap());
        assert!(!granted(Err(TryLockError::WouldBlock)).unwrap());
        let error = granted(Err(TryLockError::Error(io::ErrorKind::Unsupported.into()))).unwrap_err();
        assert!(lacks_locks(&error));
        #[cfg(unix)]
        for (errno, expected) in [(rustix::io::Errno::NOLCK, true), (rustix::io::Errno::ACCESS, false)] {
            assert_eq!(lacks_locks(&errno.into()), expected, "{errno}");
        }
    }

    #[test]
    fn a_folder_is_locked_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let lock = FileLock::try_lock_folder(folder.path()).unwrap().unwrap();
        assert!(FileLock::lock_folder(folder.path(), Duration::ZERO).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_lock_folder(folder.path()).unwrap().is_some());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(FileLock::try_lock_folder(&folder.path().join("none")).is_err());
    }
}
