//! A login in its own file, owner-only and replaced atomically.
//!
//! | step | state if the process stops right after it |
//! | --- | --- |
//! | the pending file is created, and space for the text is allocated | the old text is in place; [`FileStore::recover`] removes the pending file |
//! | part of the text is written into it | as before |
//! | the whole text is written, then flushed to the disk | the old text is in place; a recovery replaces it with the new one |
//! | the pending file is renamed to the file | the new text is in place |
//! | the folder is flushed to the disk | the new text survives a power failure |
//!
//! A reader sees either the old text or the new one at any time. A file that cannot be trusted or parsed is never
//! replaced.

mod damaged;
mod recovery;

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::unix::fs::FileExt as _,
    path::{self, Path, PathBuf},
};

pub use damaged::DamagedText;
use nexus_core::Secret;
use nexus_files::shell_word;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat},
    io::Errno,
};
use zeroize::Zeroizing;

use super::folder::{OwnerOnlyFolder, explained, refuse_others, refuse_strangers};
use super::pending::{PendingFile, is_pending};
use super::{MAX_TEXT_BYTES, PreparedWrite, StoreError, TokenStore};

/// Space that is allocated before the text is known, in bytes. Logins have 2 to 8 KiB.
const RESERVED_BYTES: u64 = 64 << 10;

/// Stores a text in one file of mode 0600, in a folder of mode 0700.
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// Creates a store for the file at `path`. Opens nothing yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> StoreError {
        StoreError::new(self.place(), reason)
    }

    fn folder_path(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }

    fn name(&self) -> Result<&OsStr, StoreError> {
        self.path.file_name().ok_or_else(|| self.error("its path does not name a file"))
    }

    /// Opens the file, and checks that it is owner-only; `None` if it does not exist.
    fn open(&self, folder: &OwnerOnlyFolder) -> Result<Option<(File, Stat)>, StoreError> {
        open_private(folder, self.name()?, OFlags::RDONLY).map_err(|reason| self.error(reason))
    }

    fn read_in(&self, folder: &OwnerOnlyFolder) -> Result<Option<Secret>, StoreError> {
        let Some((file, found)) = self.open(folder)? else { return Ok(None) };
        let bytes = read_whole(&file, &found).map_err(|reason| self.error(reason))?;
        secret(bytes).map(Some).ok_or_else(|| {
            self.error("it is not text: restore a complete copy, or move it away and log in again")
        })
    }

    /// Returns the text of the file without a check of its mode, for a decision that is safe in any case. `None` if the
    /// file cannot be read.
    pub(super) fn peek(&self) -> Option<Secret> {
        let folder = OwnerOnlyFolder::open_whosever(self.folder_path()).ok()??;
        let (file, found) = open_file(&folder, self.name().ok()?, OFlags::RDONLY).ok()??;
        secret(read_whole(&file, &found).ok()?)
    }

    /// Prepares a write, and checks that the current file can be replaced.
    pub(super) fn pending(&self) -> Result<PendingFile, StoreError> {
        let wrong = |reason: String| self.error(reason);
        let folder = OwnerOnlyFolder::make(self.folder_path()).map_err(wrong)?;
        let present = self.open(&folder)?;
        refuse_what_stays(&folder, self.name()?).map_err(wrong)?;
        // A new login may be larger than the present one.
        let size = present.map_or(0, |(_, found)| u64::try_from(found.st_size).unwrap_or_default());
        PendingFile::make(folder, self.name()?, RESERVED_BYTES.max(size.saturating_mul(2))).map_err(wrong)
    }
}

impl TokenStore for FileStore {
    fn place(&self) -> String {
        format!("the file {}", self.path.display())
    }

    fn identity(&self) -> String {
        format!("file {:?}", path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()))
    }

    fn read(&self) -> Result<Option<Secret>, StoreError> {
        match OwnerOnlyFolder::open(self.folder_path()).map_err(|reason| self.error(reason))? {
            Some(folder) => self.read_in(&folder),
            None => Ok(None),
        }
    }

    fn prepare(&self) -> Result<Box<dyn PreparedWrite>, StoreError> {
        let pending = self.pending()?;
        Ok(Box::new(PreparedFileWrite { store: self.clone(), pending }))
    }

    fn recover(&self, is_newer: &dyn Fn(&Secret, Option<&Secret>) -> bool) -> Result<bool, StoreError> {
        self.recover_by(&|found, current| Ok(is_newer(found, current)))
    }

    fn damaged(&self) -> Result<Option<DamagedText>, StoreError> {
        self.damaged_by(&|_| false)
    }

    /// Removes the file with any content and mode: a removed file need not be trusted.
    fn remove(&self) -> Result<bool, StoreError> {
        let wrong = |reason: String| self.error(reason);
        let main = self.name()?;
        let Some(folder) = OwnerOnlyFolder::open_whosever(self.folder_path()).map_err(wrong)? else {
            return Ok(false);
        };
        let failed = |error| self.error(explained("it cannot be removed", error));
        let was_there = match statat(&folder, main, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => refuse_odd_types(&found).map(|()| true).map_err(wrong)?,
            Err(Errno::NOENT) => false,
            Err(error) => return Err(failed(error)),
        };
        // Remove the main file last: a recovery would take a pending file without a main file for the login.
        for name in folder.names().map_err(wrong)?.iter().filter(|name| is_pending(name, main)) {
            unlinkat(&folder, name, AtFlags::empty()).map_err(failed)?;
        }
        if was_there {
            // Flush first: after a crash, no pending file may outlive the main file.
            folder.sync().map_err(wrong)?;
            unlinkat(&folder, main, AtFlags::empty()).map_err(failed)?;
        }
        folder.sync().map_err(wrong)?;
        Ok(was_there)
    }
}

#[derive(Debug)]
pub(super) struct PreparedFileWrite {
    store: FileStore,
    pending: PendingFile,
}

impl PreparedWrite for PreparedFileWrite {
    fn commit(mut self: Box<Self>, text: &Secret) -> Result<(), StoreError> {
        // A recovery in another process may have removed the pending file as a dead writer's, or a person may have
        // deleted it. Create it again.
        if !self.pending.is_there() {
            self.pending = self.store.pending()?;
        }
        self.pending.place(self.store.name()?, text).map_err(|reason| self.store.error(reason))
    }
}

/// Opens an owner-only file; `None` if it does not exist.
fn open_private(folder: &OwnerOnlyFolder, name: &OsStr, how: OFlags) -> Result<Option<(File, Stat)>, String> {
    let Some((file, found)) = open_file(folder, name, how)? else { return Ok(None) };
    refuse_strangers(&found, "it belongs")?;
    refuse_others(&found, &folder.path().join(name))?;
    Ok(Some((file, found)))
}

/// Opens a regular file; `None` if it does not exist.
fn open_file(folder: &OwnerOnlyFolder, name: &OsStr, how: OFlags) -> Result<Option<(File, Stat)>, String> {
    // Without `NONBLOCK`, opening a pipe at this path would block.
    let how = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let unreadable = |error| explained("it cannot be read", error);
    let file = match openat(folder, name, how, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::MLINK) => {
            return Err("it is a symbolic link: replace it with the file itself".to_owned());
        }
        Err(error @ (Errno::ISDIR | Errno::NXIO)) => {
            // A file of this type cannot be opened at all, so its metadata explains the error.
            let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(unreadable)?;
            return Err(refuse_odd_types(&found).err().unwrap_or_else(|| unreadable(error)));
        }
        Err(error) => return Err(unreadable(error)),
    };
    let found = fstat(&file).map_err(unreadable)?;
    refuse_odd_types(&found)?;
    Ok(Some((file, found)))
}

fn refuse_odd_types(found: &Stat) -> Result<(), String> {
    let what = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        _ => "a device",
    };
    Err(format!("it is {what} and not a file: move it away"))
}

/// Rejects a file that a rename cannot replace, although the modes of the file and its folder allow it.
fn refuse_what_stays(folder: &OwnerOnlyFolder, name: &OsStr) -> Result<(), String> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{StatxAttributes as Attributes, StatxFlags, statx};

        let attributes = |name: &OsStr| {
            let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
            statx(folder, name, how, StatxFlags::empty())
                .map_or(Attributes::empty(), |found| found.stx_attributes)
        };
        let path = folder.path().join(name);
        if attributes(name).contains(Attributes::MOUNT_ROOT) {
            return Err("it is a mount point, so it cannot be replaced: mount its folder instead".to_owned());
        }
        if attributes(name).intersects(Attributes::IMMUTABLE | Attributes::APPEND) {
            return Err(format!("it is immutable or append-only: run `chattr -ia {}`", shell_word(&path)));
        }
        if attributes(OsStr::new("")).intersects(Attributes::IMMUTABLE | Attributes::APPEND) {
            let path = shell_word(folder.path());
            return Err(format!("its folder is immutable or append-only: run `chattr -ia {path}`"));
        }
    }
    let _ = (folder, name);
    Ok(())
}

/// Reads a file to its end into a buffer that is never reallocated, so no copy of the secret stays behind.
fn read_whole(file: &File, found: &Stat) -> Result<Zeroizing<Vec<u8>>, String> {
    let size = u64::try_from(found.st_size).unwrap_or(u64::MAX);
    if size > MAX_TEXT_BYTES {
        return Err(format!("it has {size} bytes, more than the {MAX_TEXT_BYTES} of a login: move it away"));
    }
    let mut bytes = Zeroizing::new(vec![0; usize::try_from(size).unwrap_or_default()]);
    // The second read detects a file that has grown.
    let result = file.read_exact_at(&mut bytes, 0).and_then(|()| file.read_at(&mut [0], size));
    match result {
        Ok(0) => Ok(bytes),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(format!("it cannot be read ({error})"))
        }
        Ok(_) | Err(_) => Err("it changed while it was read: try again".to_owned()),
    }
}

/// Converts the bytes into a secret if they are UTF-8. Overwrites them otherwise.
fn secret(mut bytes: Zeroizing<Vec<u8>>) -> Option<Secret> {
    match String::from_utf8(std::mem::take(&mut *bytes)) {
        Ok(text) => Some(Secret::new(text)),
        Err(error) => {
            drop(Zeroizing::new(error.into_bytes()));
            None
        }
    }
}

#[cfg(test)]
mod tests;
