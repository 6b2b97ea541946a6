//! Recovery of pending writes. Each pending file is put in place, removed, or waited for.
//!
//! A locked pending file normally has a live writer, but its writer may have been killed. The kernel releases the locks
//! of a killed process one after another, in no fixed order. So the refresh lock may be free for a moment while the
//! lock of a complete new text is still held. The token that such a text replaces must not be spent. So recovery waits
//! for a complete and newer text. If its writer neither puts it in place nor ends, recovery fails.

use std::{
    ffi::OsStr,
    fs::File,
    thread,
    time::{Duration, Instant},
};

use nexus_core::Secret;
use rustix::fs::{AtFlags, OFlags, Stat, fstat, renameat, unlinkat};

use super::{FileStore, MAX_TEXT_BYTES, open_private, read_whole, secret};
use crate::store::{
    StoreError,
    folder::{OwnerOnlyFolder, explained},
    pending::{is_at, is_being_written, is_pending},
};

/// Time within which the writer of a complete text must move it to its path, or the kernel must release its lock.
const PLACED_OR_FREED_WITHIN: Duration = Duration::from_secs(2);

/// Poll interval while recovery waits for such a text.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Compares a pending text with the current one.
pub(in crate::store) type IsNewer<'a> = dyn Fn(&Secret, Option<&Secret>) -> Result<bool, StoreError> + 'a;

/// A pending file found in the folder.
struct FoundWrite<'a> {
    store: &'a FileStore,
    folder: &'a OwnerOnlyFolder,
    name: &'a OsStr,
    file: File,
    is_newer: &'a IsNewer<'a>,
}

impl FileStore {
    /// Like [`TokenStore::recover`](super::TokenStore::recover), with an `is_newer` that may fail. If it fails, nothing
    /// is changed.
    pub(in crate::store) fn recover_by(&self, is_newer: &IsNewer<'_>) -> Result<bool, StoreError> {
        let wrong = |reason: String| self.error(reason);
        let main = self.name()?;
        let Some(folder) = OwnerOnlyFolder::open(self.folder_path()).map_err(wrong)? else {
            return Ok(false);
        };
        let mut was_placed = false;
        for name in folder.names().map_err(wrong)?.iter().filter(|name| is_pending(name, main)) {
            let found = open_private(&folder, name, OFlags::RDWR).map_err(|reason| {
                self.error(format!(
                    "the file of an unfinished write, {}, cannot be used: {reason}",
                    name.display()
                ))
            })?;
            let Some((file, _)) = found else { continue };
            let found = FoundWrite { store: self, folder: &folder, name, file, is_newer };
            if found.is_left()? {
                was_placed |= found.finish(main)?;
            }
        }
        Ok(was_placed)
    }
}

impl FoundWrite<'_> {
    /// Returns true if the writer has ended and the file still exists. Does not disturb a live writer.
    fn is_left(&self) -> Result<bool, StoreError> {
        let began = Instant::now();
        while is_being_written(&self.file) {
            let is_worth_waiting = match self.text() {
                Ok(Some(text)) => self.is_newer(&text)?,
                Ok(None) => false,
                // The text changed while it was read; it will be complete in a moment.
                Err(_) => true,
            };
            if !is_worth_waiting || !is_at(self.folder, self.name, &self.file) {
                return Ok(false);
            }
            if began.elapsed() >= PLACED_OR_FREED_WITHIN {
                return Err(self.store.error(format!(
                    "another process has written a newer login, {}, but does not finish its write: end that \
                     process, or try again",
                    self.name.display()
                )));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(is_at(self.folder, self.name, &self.file))
    }

    /// Moves the pending file to `main`, or removes it. Returns true if it was moved.
    fn finish(&self, main: &OsStr) -> Result<bool, StoreError> {
        let failed = |error| self.store.error(explained("an unfinished write cannot be finished", error));
        let text = self.text().map_err(|reason| self.store.error(reason))?;
        let placed = match text {
            Some(text) if self.is_newer(&text)? => {
                // Cut off the zeros that reserved space.
                rustix::fs::ftruncate(&self.file, text.expose().len() as u64).map_err(failed)?;
                // The writer may have died before its own flush.
                rustix::fs::fsync(&self.file).map_err(failed)?;
                renameat(self.folder, self.name, self.folder, main).map_err(failed)?;
                true
            }
            _ => {
                unlinkat(self.folder, self.name, AtFlags::empty()).map_err(failed)?;
                false
            }
        };
        self.folder.sync().map_err(|reason| self.store.error(reason))?;
        Ok(placed)
    }

    fn is_newer(&self, text: &Secret) -> Result<bool, StoreError> {
        (self.is_newer)(text, self.store.read_in(self.folder)?.as_ref())
    }

    fn text(&self) -> Result<Option<Secret>, String> {
        let found =
            fstat(&self.file).map_err(|error| explained("an unfinished write cannot be read", error))?;
        left_behind(&self.file, &found)
    }
}

/// Returns the text that a writer left in its pending file, without the zeros that reserved space. `None` if there is
/// no text.
fn left_behind(file: &File, found: &Stat) -> Result<Option<Secret>, String> {
    if u64::try_from(found.st_size).unwrap_or(u64::MAX) > MAX_TEXT_BYTES {
        return Ok(None);
    }
    let mut bytes = read_whole(file, found)?;
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(length);
    Ok(secret(bytes).filter(|text| !text.expose().is_empty()))
}
