//! Paths and locks of a store's files.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_core::ServiceFault;
use nexus_files::FileLock;

use crate::{
    conversation_error::{ConversationError, ConversationErrorKind},
    name::{ConversationName, file_stem},
    store::Conversations,
};

/// Shortest wait for the lock of a name. Its release and a sweep also lock it for a moment.
const NAME_PATIENCE: Duration = Duration::from_millis(50);

impl Conversations {
    pub(crate) fn path_of(&self, name: &ConversationName) -> PathBuf {
        self.folder.join("names").join(format!("{}.json", name.stem()))
    }

    /// Returns the folder of logs.
    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Returns the folder of turns in version 1.
    pub(crate) fn nodes(&self) -> PathBuf {
        self.folder.join("nodes")
    }

    fn lock_path_of(&self, name: &ConversationName) -> PathBuf {
        self.folder.join("locks").join(format!("{}.lock", name.stem()))
    }

    pub(crate) fn lock_name(
        &self,
        name: &ConversationName,
        patience: Duration,
    ) -> Result<FileLock, ConversationError> {
        let lock = |path: &Path| FileLock::lock(path, patience.max(NAME_PATIENCE));
        self.lock(&self.lock_path_of(name), lock)?.ok_or_else(|| self.in_use(name))
    }

    pub(crate) fn in_use(&self, name: &ConversationName) -> ConversationError {
        let message = format!("the conversation {name} is in use by another turn");
        ConversationError::new(ConversationErrorKind::InUse, message, "wait for it, or fork it")
    }

    /// Locks the store against every other writer.
    pub(crate) fn lock_store(&self, patience: Duration) -> Result<FileLock, ConversationError> {
        self.store_lock(|path| FileLock::lock(path, patience))
    }

    /// Locks the store against writers that remove files. Turns of other conversations can be added meanwhile.
    pub(crate) fn share_store(&self, patience: Duration) -> Result<FileLock, ConversationError> {
        self.store_lock(|path| FileLock::lock_shared(path, patience))
    }

    fn store_lock(
        &self,
        lock: impl FnOnce(&Path) -> io::Result<Option<FileLock>>,
    ) -> Result<FileLock, ConversationError> {
        let path = self.folder.join("store.lock");
        self.lock(&path, lock)?.ok_or_else(|| {
            let message = format!("{}: another process has been writing to it for a minute", path.display());
            ConversationError::of(ServiceFault::InUse, message)
        })
    }

    fn lock(
        &self,
        path: &Path,
        lock: impl FnOnce(&Path) -> io::Result<Option<FileLock>>,
    ) -> Result<Option<FileLock>, ConversationError> {
        for folder in ["names", "logs", "locks"].map(|name| self.folder.join(name)) {
            if !folder.is_dir() {
                // Flush the home, too: the folder of the store may be new.
                let home = &self.home;
                nexus_files::make_private_folder(&folder)
                    .and_then(|()| fs::File::open(&self.folder)?.sync_all())
                    .and_then(|()| fs::File::open(home)?.sync_all())
                    .map_err(ConversationError::at(&folder))?;
            }
        }
        lock(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                let message = format!("{}: {error}, and is to be a lock", path.display());
                ConversationError::new(ConversationErrorKind::Damaged, message, "remove it")
            }
            _ => ConversationError::unusable(path, &error),
        })
    }

    /// Unlocks a name, and removes its lock file if the conversation does not exist.
    pub(crate) fn let_go(&self, name: &ConversationName, hold: FileLock) {
        let is_gone = fs::symlink_metadata(self.path_of(name))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        if is_gone {
            // A lock file that stays is harmless.
            let _ = hold.remove();
        }
    }

    /// Returns the files of all names. Skips files whose names are not valid.
    pub(crate) fn names(&self) -> Result<Vec<PathBuf>, ConversationError> {
        let mut names = self.files("names", ".json")?;
        names.retain(|path| file_stem(path).parse::<ConversationName>().is_ok());
        Ok(names)
    }

    /// Returns the files of a folder whose names have this ending, in no order.
    pub(crate) fn files(&self, folder: &str, ending: &str) -> Result<Vec<PathBuf>, ConversationError> {
        self.entries(folder, |name| name.ends_with(ending) && !name.starts_with('.'))
    }

    /// Returns unfinished files of writers in a folder.
    pub(crate) fn unfinished(&self, folder: &str) -> Result<Vec<PathBuf>, ConversationError> {
        self.entries(folder, |name| name.ends_with(".new") && name.starts_with('.'))
    }

    fn entries(
        &self,
        folder: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<PathBuf>, ConversationError> {
        let folder = self.folder.join(folder);
        let unusable = |error: io::Error| ConversationError::unusable(&folder, &error);
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(unusable)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(unusable)?;
            if is_wanted(&entry.file_name().to_string_lossy()) {
                files.push(entry.path());
            }
        }
        Ok(files)
    }
}
