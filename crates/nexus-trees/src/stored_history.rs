//! The histories of folders as they are stored, whether their folders still exist or not.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use nexus_files::{FileLock, random_name, read_bounded};
use serde::Deserialize;

use super::text::PathText;

/// Maximum size of the file of one turn, in bytes.
pub(super) const MAX_TURN_BYTES: u64 = 64 << 20;
/// Folder with a file for each turn.
pub(super) const TURNS: &str = "turns";
pub(super) const LOCK: &str = "lock";
/// File that each running turn locks, together with others.
pub(super) const IN_USE: &str = "in-use";

/// Beginning of the name of a history that is being deleted.
const REMOVED: &str = ".removed-";

/// A stored [`FolderHistory`](crate::FolderHistory).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHistory {
    /// The folder of this history alone.
    pub store: PathBuf,
    /// The person's folder. `None` if no turn is readable.
    pub folder: Option<PathBuf>,
    /// Time of the last change of its turns.
    pub used: SystemTime,
}

/// The fields of a stored turn that a list shows.
#[derive(Deserialize)]
struct TurnFolder {
    folder: PathText,
}

impl StoredHistory {
    /// Returns the histories below a folder, in no order. A missing folder has none.
    ///
    /// # Errors
    ///
    /// Errors of the file system if the folder cannot be read.
    pub fn all(stores: impl AsRef<Path>) -> io::Result<Vec<Self>> {
        let entries = match fs::read_dir(stores) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let histories = entries.flatten().filter_map(|entry| {
            if entry.file_name().to_string_lossy().starts_with(REMOVED) {
                return None;
            }
            let store = entry.path();
            let used = fs::metadata(store.join(TURNS)).and_then(|found| found.modified()).ok()?;
            let folder = folder_of(&store);
            Some(Self { store, folder, used })
        });
        Ok(histories.collect())
    }

    /// Deletes the history. Returns false if a turn uses it or has used it since it was listed, with nothing deleted.
    ///
    /// # Errors
    ///
    /// Errors of the file system. What could not be deleted has another name, and goes with the next
    /// [`sweep`](crate::FolderHistory::sweep).
    pub fn remove(&self) -> io::Result<bool> {
        let Some(_turns) = FileLock::try_lock(&self.store.join(IN_USE))? else { return Ok(false) };
        let Some(_lock) = FileLock::try_lock(&self.store.join(LOCK))? else { return Ok(false) };
        if fs::metadata(self.store.join(TURNS))?.modified()? != self.used {
            return Ok(false);
        }
        let Some(stores) = self.store.parent() else { return Ok(false) };
        let removed = stores.join(format!("{REMOVED}{}", random_name()));
        fs::rename(&self.store, &removed)?;
        fs::remove_dir_all(&removed)?;
        Ok(true)
    }
}

/// Deletes what interrupted removals left below a folder.
pub(super) fn remove_rest(stores: &Path) {
    for entry in fs::read_dir(stores).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(REMOVED) {
            // Ignore an error: the next sweep deletes the rest.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Reads the folder from the first readable turn. Every turn has it.
fn folder_of(store: &Path) -> Option<PathBuf> {
    let turns = fs::read_dir(store.join(TURNS)).ok()?.flatten();
    let mut folders = turns.filter_map(|turn| {
        let bytes = read_bounded(&turn.path(), MAX_TURN_BYTES).ok()??;
        serde_json::from_slice::<TurnFolder>(&bytes).ok()
    });
    folders.next().map(|turn| turn.folder.to_path_buf())
}
