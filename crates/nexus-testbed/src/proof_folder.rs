//! Folders for the proofs of traps. The next process removes those of a killed one.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nexus_files::{FileLock, make_private_folder};
use nexus_process::private_home::remove_tree;

use crate::error::TestbedError;

const LOCK: &str = ".lock";
/// Prefix of the names of these folders.
const PREFIX: &str = "proof-";
/// Maximum number of names that are tried. Another process may remove or lock each of them.
const MOST_TRIES: u32 = 16;

/// A folder for the proofs of traps, locked while it is used and removed on drop. The next process that creates a folder
/// beside it removes the folder of a killed process.
#[derive(Debug)]
pub struct ProofFolder {
    path: PathBuf,
    _lock: FileLock,
}

impl ProofFolder {
    /// Creates a folder in `parent`, and `parent` if necessary. Removes the folders in it that no process has locked. It
    /// blocks.
    ///
    /// # Errors
    ///
    /// [`TestbedError::Io`].
    pub fn make(parent: &Path) -> Result<Self, TestbedError> {
        let failed = |error| TestbedError::io(parent, error);
        make_private_folder(parent).map_err(failed)?;
        remove_abandoned(parent).map_err(failed)?;
        for number in 0..MOST_TRIES {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            make_private_folder(&path).map_err(failed)?;
            // Before the lock was taken, another process may have removed the folder as an abandoned one.
            match FileLock::try_lock(&path.join(LOCK)) {
                Ok(Some(lock)) if path.join(LOCK).exists() => return Ok(Self { path, _lock: lock }),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Err(failed(io::Error::other("no folder in it can be held")))
    }

    /// Returns the path for the proof of a trap: [`Trap::prove`](crate::Trap::prove) creates this folder, and removes it.
    pub fn trap(&self) -> PathBuf {
        self.path.join("trap")
    }
}

impl Drop for ProofFolder {
    fn drop(&mut self) {
        // If this fails, the next process tries again.
        let _ = remove_tree(&self.path);
    }
}

/// Removes the folders that no process has locked.
fn remove_abandoned(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)?.flatten() {
        let is_one = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_one && let Ok(Some(_lock)) = FileLock::try_lock(&entry.path().join(LOCK)) {
            // A folder that stays does no harm to other runs.
            let _ = remove_tree(&entry.path());
        }
    }
    Ok(())
}
