//! Files of a project that people, git and several processes share: bounded reads, atomic replacement, one lock per folder.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    path::Path,
    time::{Duration, Instant, SystemTime},
};

use nexus_files::{FileLock, FileStamp};

use crate::error::{ProjectError, ProjectErrorKind};

/// Maximum size of a file that is read, in bytes. Source: our own bound, far above files that people and agents write.
pub(crate) const MOST_BYTES: u64 = 64 << 20;
/// Longest wait for one lock in a tool or a command.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for all locks of one hook together. Source: our own bound; the program and its user wait for the answer.
const PATIENCE_OF_A_HOOK: Duration = Duration::from_secs(1);
/// Suffix of the name of a file that is not in place yet.
const PENDING: &str = ".new";

/// Reads a regular file. `None` if it does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>, ProjectError> {
    nexus_files::read_bounded(path, MOST_BYTES).map_err(ProjectError::at(path))
}

/// Like [`read`], for a text file.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, ProjectError> {
    let text = read(path)?.map(String::from_utf8).transpose();
    text.map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ProjectError::damaged(path, format_args!("byte {at} is not valid in UTF-8"))
    })
}

/// Reads the beginning of a text file, up to `most` bytes. `None` if it is not a regular file, or not a text.
pub(crate) fn read_start(path: &Path, most: u64) -> Option<String> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    let end = match str::from_utf8(&bytes) {
        Ok(text) => text.len(),
        // The limit cut the last character.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return None,
    };
    bytes.truncate(end);
    String::from_utf8(bytes).ok()
}

/// Fails for a size that could not be read again.
pub(crate) fn check_size(path: &Path, bytes: usize) -> Result<(), ProjectError> {
    if bytes as u64 <= MOST_BYTES {
        return Ok(());
    }
    let message = format!("{path:?} would have {bytes} bytes, more than {MOST_BYTES}");
    let instead = "write less, or move the file away to start a new one; it was not changed";
    Err(ProjectError::new(ProjectErrorKind::WrongState, message, instead))
}

/// Replaces a file in one step, and creates its folder if it is missing. An interrupted call leaves the old
/// content or the new one. An existing file retains its mode; a new one gets the default mode of the process.
///
/// # Errors
///
/// [`WrongState`](ProjectErrorKind::WrongState) for more than 64 MiB, [`Damaged`](ProjectErrorKind::Damaged) if
/// the path is not a regular file; errors of the file system.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), ProjectError> {
    replace_stamped(path, bytes).map(drop)
}

/// Like [`replace`], and returns the stamp of the new file. Its time is that of the clock to the nanosecond, and no later change gives it
/// the same one. `None` if the stamp is unknown, or another process has already changed the file.
pub(crate) fn replace_stamped(path: &Path, bytes: &[u8]) -> Result<Option<FileStamp>, ProjectError> {
    check_size(path, bytes.len())?;
    replace_io(path, bytes, Durability::Flushed).map_err(ProjectError::at(path))
}

/// Like [`replace`], for a copy of other files, which may be lost if the power fails.
pub(crate) fn replace_copy(path: &Path, bytes: &[u8]) -> Result<(), ProjectError> {
    replace_io(path, bytes, Durability::Unflushed).map(drop).map_err(ProjectError::at(path))
}

/// Durability of a file: it must survive a power failure, or need not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Durability {
    Flushed,
    Unflushed,
}

fn replace_io(path: &Path, bytes: &[u8], durability: Durability) -> io::Result<Option<FileStamp>> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(folder)?;
    let mode = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a regular file, as required"));
        }
        Ok(found) => Some(found.permissions()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mut prefix = OsString::from(".");
    prefix.push(path.file_name().unwrap_or_default());
    prefix.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(PENDING);
    #[cfg(unix)]
    // `tempfile` creates owner-only files. The process's umask reduces this mode as for any new file.
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut pending = builder.tempfile_in(folder)?;
    pending.write_all(bytes)?;
    if let Some(mode) = mode {
        keep_mode(pending.as_file(), mode)?;
    }
    // The kernel gives files the time of its last tick. Ignore an error: the file then has that time.
    let _ = pending.as_file().set_modified(SystemTime::now());
    let written = pending.as_file().metadata()?;
    if durability == Durability::Flushed {
        pending.as_file().sync_all()?;
    }
    let file = pending.persist(path).map_err(|error| error.error)?;
    // The new name has changed the stamp.
    let stamp = file
        .metadata()
        .ok()
        .filter(|found| found.len() == written.len() && found.modified().ok() == written.modified().ok());
    if durability == Durability::Flushed {
        // The flush of the file does not cover its new name, which is in the folder.
        nexus_files::sync_folder(folder)?;
    }
    Ok(stamp.as_ref().and_then(FileStamp::of))
}

fn keep_mode(file: &File, mode: Permissions) -> io::Result<()> {
    match file.set_permissions(mode) {
        // The file system has no file modes.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        done => done,
    }
}

/// Adds patterns to the `.gitignore` of a folder. Returns true if any was missing.
///
/// # Errors
///
/// As [`replace`].
pub fn ignore(folder: &Path, patterns: &[&str]) -> Result<bool, ProjectError> {
    let path = folder.join(".gitignore");
    let before = read_text(&path)?.unwrap_or_default();
    let mut text = before.clone();
    for pattern in patterns {
        if !before.lines().any(|line| line.trim_end() == *pattern) {
            let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
            text = format!("{text}{gap}{pattern}\n");
        }
    }
    let is_missing = text != before;
    if is_missing {
        replace(&path, text.as_bytes())?;
    }
    Ok(is_missing)
}

/// Removes a file. A missing file is not an error.
pub(crate) fn remove(path: &Path) -> Result<(), ProjectError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.map_err(ProjectError::at(path)),
    }
}

/// Creates a folder with its parents. Returns true if it was missing.
///
/// # Errors
///
/// [`Damaged`](ProjectErrorKind::Damaged) for a link or a file of that name; errors of the file system.
pub fn make_folder(path: &Path) -> Result<bool, ProjectError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => return Ok(false),
        Ok(_) => return Err(ProjectError::damaged(path, "it is no folder")),
        Err(_) => {}
    }
    fs::create_dir_all(path).map(|()| true).map_err(ProjectError::at(path))
}

/// Longest wait for locks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// Half a minute for each lock.
    #[default]
    OfACommand,
    /// One second for all locks together, from this time on.
    OfAHook(Instant),
}

impl Patience {
    /// Returns the patience of a hook that begins now.
    pub(crate) fn of_a_hook() -> Self {
        Self::OfAHook(Instant::now())
    }

    fn bound(self) -> Duration {
        match self {
            Self::OfACommand => PATIENCE,
            Self::OfAHook(_) => PATIENCE_OF_A_HOOK,
        }
    }

    fn left(self) -> Duration {
        match self {
            Self::OfACommand => self.bound(),
            Self::OfAHook(began) => self.bound().saturating_sub(began.elapsed()),
        }
    }
}

/// A lock on a folder against all other threads and processes, until it is dropped. The operating system releases the lock
/// of a dead process.
#[derive(Debug)]
pub struct FolderLock {
    _lock: FileLock,
}

impl FolderLock {
    /// Locks the file at `path`, and creates it if it is missing. Waits for other writers up to `patience`.
    ///
    /// # Errors
    ///
    /// [`InUse`](ProjectErrorKind::InUse) after that time; errors of the file system.
    pub fn take(path: &Path, patience: Patience) -> Result<Self, ProjectError> {
        // Create the lock with the default mode of new files: every user who may write to the folder may lock it. An
        // existing file stays.
        let _ = OpenOptions::new().write(true).create_new(true).open(path);
        let locked = FileLock::lock(path, patience.left());
        match locked.map_err(ProjectError::at(path))? {
            Some(lock) => Ok(Self { _lock: lock }),
            None => {
                let bound = patience.bound().as_secs();
                let message = format!("another writer has locked {path:?} for {bound} s");
                Err(ProjectError::new(ProjectErrorKind::InUse, message, "make the same call again now"))
            }
        }
    }
}
