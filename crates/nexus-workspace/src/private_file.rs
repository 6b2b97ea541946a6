//! Files that are their owner's alone, such as those that lie beside a workspace's own: read within bounds, replaced as a whole, held by a lock.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::{WorkspaceId, file};

/// Reads a regular file of at most `most` bytes. `None` if there is none.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) if it is a link, a pipe or the like, or larger; those of the file system.
pub fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    // A pipe would hold the call up, and a link leads elsewhere.
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let reason = format!("it has more than {most} bytes, which no file of this kind has");
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(Some(bytes))
}

/// Replaces a file as a whole, in a folder that is made if it is not there: it has the old content or the new one, whenever this
/// ends.
///
/// # Errors
///
/// Those of the file system, with the old content in place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    make_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let pending = folder.join(format!(".{name}.{}.new", WorkspaceId::random()));
    let written = write_new(&pending, bytes).and_then(|()| fs::rename(&pending, path));
    if written.is_err() {
        // What cannot be removed either is in nobody's way.
        let _ = fs::remove_file(&pending);
    }
    written?;
    File::open(folder)?.sync_all()
}

/// Makes a folder that only its owner may enter, unless it is there.
///
/// # Errors
///
/// Those of the file system.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Opens a file to be locked; makes it where there is none.
///
/// # Errors
///
/// [`InvalidData`](io::ErrorKind::InvalidData) if it is a link, a pipe or the like; those of the file system.
pub fn open_lock(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
    }
    private(OpenOptions::new().read(true).write(true).create(true)).open(path)
}

/// The lock of a file, until it is dropped: of all threads and processes, one has it. The operating system takes it back from a
/// process that dies.
#[derive(Debug)]
pub struct FileHold {
    file: File,
    path: PathBuf,
}

impl FileHold {
    /// Takes the lock of the file at `path`, which is made where there is none. `None` if somebody has it.
    ///
    /// # Errors
    ///
    /// As [`open_lock`].
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        Self::try_lock(path, open_lock(path)?)
    }

    /// Takes the lock of a file that is there: none is made. `None` if another has it, or there is no file.
    ///
    /// # Errors
    ///
    /// As [`open_lock`].
    pub fn try_take_existing(path: &Path) -> io::Result<Option<Self>> {
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no regular file"));
        }
        match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => Self::try_lock(path, opened?),
        }
    }

    fn try_lock(path: &Path, file: File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => {
                // Whoever had it may have removed the file before the lock was free: then others lock another one.
                let is_there = fs::symlink_metadata(path)
                    .and_then(|found| Ok(file::is_same(&found, &file.metadata()?)))
                    .unwrap_or(false);
                let hold = Self { file, path: path.to_owned() };
                Ok(is_there.then_some(hold))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Removes the file, and lets go of the lock. Others that were about to take it take that of a new file.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Drop for FileHold {
    fn drop(&mut self) {
        // Closing would not do while a process that was just forked has a copy of the handle.
        let _ = self.file.unlock();
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private(OpenOptions::new().write(true).create_new(true)).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_a_file_that_is_there_makes_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        assert!(FileHold::try_take_existing(&path).unwrap().is_none());
        assert!(!path.exists());
        let held = FileHold::try_take(&path).unwrap().unwrap();
        assert!(FileHold::try_take_existing(&path).unwrap().is_none(), "it is another's");
        drop(held);
        let held = FileHold::try_take_existing(&path).unwrap().unwrap();
        held.remove().unwrap();
        assert!(FileHold::try_take_existing(&path).unwrap().is_none());
        assert!(!path.exists());
    }
}
