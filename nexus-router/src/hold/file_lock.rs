//! The operating system's lock on a file, which it takes back from a process that dies.
//!
//! The file says nothing and is never deleted by us.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// How soon a lock that is taken is tried again: at first, and at most.
const PAUSES: [Duration; 2] = [Duration::from_micros(100), Duration::from_millis(5)];

/// A lock, until it is dropped.
#[derive(Debug)]
pub(super) struct FileLock(File);

impl FileLock {
    /// Takes the lock; waits for it, if others have it, for as long as `patience`.
    pub(super) fn take(path: &Path, patience: Duration) -> io::Result<Self> {
        let began = Instant::now();
        let mut pause = PAUSES[0];
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            if began.elapsed() >= patience {
                let reason = format!("{} is locked by another process", path.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }

    /// Takes the lock, if nobody has it. Makes the file and its folders.
    pub(super) fn try_take(path: &Path) -> io::Result<Option<Self>> {
        if let Some(folder) = path.parent() {
            make_folders(folder)?;
        }
        refuse_odd_types(path)?;
        let file = private(OpenOptions::new().write(true).create(true).truncate(false)).open(path)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => {}
        }
        // Somebody may have deleted it before we had the lock; then others lock another file.
        Ok(is_at(&file, path).then_some(Self(file)))
    }

    /// Whether somebody has the lock. It makes no file.
    pub(super) fn is_taken(path: &Path) -> bool {
        if refuse_odd_types(path).is_err() {
            return false;
        }
        let Ok(file) = OpenOptions::new().write(true).open(path) else { return false };
        // Shared, so that two who look do not take each other for an owner.
        let is_taken = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
        let _ = file.unlock();
        is_taken
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing would not do while a process that was just forked has a copy of the handle.
        let _ = self.0.unlock();
    }
}

/// Refuses what is not a file, such as a pipe, which would block whoever opens it.
pub(super) fn refuse_odd_types(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            let reason = format!("{} is no regular file: move it away", path.display());
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a file that only its owner may read and write.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

fn make_folders(folder: &Path) -> io::Result<()> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes to set"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        matches!((file.metadata().map(id), fs::symlink_metadata(path).map(id)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        let _ = (file, path);
        true
    }
}
