//! The conversations of one home, by name.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use nexus_core::{BackendId, ResumeHandle, log_unrecorded};
use nexus_files::{FolderSize, HomeIndex, IndexEntry, Journal, JournalKind, WorkFiles};
use serde::{Deserialize, Serialize};

use crate::{
    conversation::Conversation,
    conversation_end::ConversationEnd,
    conversation_error::{ConversationError, ConversationErrorKind, in_conversation},
    conversation_log::ConversationLog,
    log_line::{ListedEnd, LogHeader, LogId},
    log_reader::ConversationLogReader,
    name::{ConversationName, file_stem},
    name_file::{ListedName, NameFile},
};

/// The folder of conversations in a home.
const FOLDER: &str = "conversations";
/// Longest wait for the lock of the store. Adding a turn waits without limit, because the turn was already paid for. Writers
/// share the lock while they add a turn, and a sweep owns it while it runs.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(60);

/// The conversations below one folder.
///
/// | file | content |
/// | --- | --- |
/// | `names/NAME.json` | the log of the conversation NAME; written once |
/// | `logs/NAME.ID.jsonl` | the conversation: a header, and the messages, items and `end` line of each turn; append-only |
/// | `locks/NAME.lock` | empty; locked by a process that runs a turn of NAME |
/// | `store.lock` | empty; shared by processes that add a turn, locked by one that forks, deletes or sweeps |
///
/// Files have mode 0600, folders 0700. The record of a turn is appended in one write with a checksum, and flushed before the
/// turn is reported. So if a process dies, the conversation is unchanged or has the whole turn, and is not locked. Readers
/// ignore an incomplete record at the end of a log, the next turn replaces it, and need no lock.
///
/// A fork has a log of its own, whose header names the log that it continues and an offset in it. A log stays as long as a
/// name or a fork reads it.
///
/// Version 1 of the files has each turn in `nodes/HASH.json`, named by its SHA-256, and the vendor's handle in the file of the
/// name. Such a conversation is read, and converted at its next turn.
///
/// Every call reads or writes files: in async code, call it inside `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct Conversations {
    pub(crate) home: PathBuf,
    pub(crate) folder: PathBuf,
    journal: Arc<Journal>,
}

/// Summary of a conversation without its messages.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationSummary {
    /// Name of the conversation.
    pub name: ConversationName,
    /// Number of turns, including the turn in which it was forked.
    pub turns: u64,
    /// Number of messages.
    pub messages: u64,
    /// Time of its last change, in milliseconds since 1970-01-01 00:00 UTC.
    pub updated_at_ms: u64,
    /// Backend with a conversation of its own that the next turn can resume. `None`: only the stored messages exist.
    pub resumes: Option<BackendId>,
}

/// The conversations of a store.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct ConversationList {
    /// Readable conversations, by name.
    pub conversations: Vec<ConversationSummary>,
    /// Errors of the unreadable conversations.
    pub unreadable: Vec<ConversationError>,
}

/// Last line of a log as far as lists show it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ListedClosing {
    Conversation(LogHeader),
    End(ListedEnd),
}

impl Conversations {
    /// Opens the conversations in `conversations` below `home`, such as `$NEXUS_HOME`. Folders are created by
    /// the first write. Changes are recorded in the [`Journal`] of the home.
    pub fn in_home(home: impl AsRef<Path>) -> Self {
        let home = home.as_ref();
        let journal = Arc::new(Journal::in_home(home));
        Self { home: home.to_owned(), folder: home.join(FOLDER), journal }
    }

    /// Returns the conversations, by name, from the index of the home: only changed ones are read. The list
    /// also names unreadable conversations.
    ///
    /// # Errors
    ///
    /// The folder cannot be read.
    pub fn list(&self) -> Result<ConversationList, ConversationError> {
        let mut logs: HashMap<String, Vec<PathBuf>> = HashMap::new();
        for path in self.files("logs", ".jsonl")? {
            if let Ok(id) = file_stem(&path).parse::<LogId>() {
                logs.entry(id.stem().to_owned()).or_default().push(path);
            }
        }
        // The log of a deleted conversation with the same name may also be there. Only a sweep changes it: it truncates or
        // removes it.
        let files = |path: PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let mut files = logs.remove(&file_stem(&path)).unwrap_or_default();
            files.sort();
            files.insert(0, path);
            WorkFiles { name, files }
        };
        let found: Vec<_> = self.names()?.into_iter().map(files).collect();
        let kind = JournalKind::Conversation;
        let index = HomeIndex::in_home(&self.home, Arc::clone(&self.journal));
        let listed = index.refresh(FOLDER, &kind, &found, |work| match work.files.as_slice() {
            [path, ..] => self.entry(path),
            [] => Ok(None),
        });
        let mut conversations: Vec<_> =
            listed.entries.into_iter().filter_map(|entry| entry.details).collect();
        conversations.sort_by(|one: &ConversationSummary, other| one.name.cmp(&other.name));
        Ok(ConversationList { conversations, unreadable: listed.unreadable })
    }

    /// Returns the index entry of the conversation whose name has the file at `path`. `None` if it was deleted
    /// meanwhile.
    fn entry(&self, path: &Path) -> Result<Option<IndexEntry<ConversationSummary>>, ConversationError> {
        let Some(found) = self.listed(path)? else { return Ok(None) };
        if self.path_of(&found.name) != path {
            let reason = format!("it is that of {:?}", found.name.as_str());
            // A copied name file would otherwise show the same conversation twice.
            return Err(ConversationError::damaged(path, reason));
        }
        let updated_at = UNIX_EPOCH.checked_add(Duration::from_millis(found.updated_at_ms));
        let (name, updated_at) = (found.name.as_str(), updated_at.unwrap_or(UNIX_EPOCH));
        let mut entry = IndexEntry::new(JournalKind::Conversation, name, name, updated_at);
        entry.details = Some(found);
        Ok(Some(entry))
    }

    /// Returns the summary of the conversation whose name has the file at `path`. `None` if the file does not exist. Parses
    /// no handle.
    fn listed(&self, path: &Path) -> Result<Option<ConversationSummary>, ConversationError> {
        let Some(listed) = ListedName::read(path)? else { return Ok(None) };
        let named = match listed {
            ListedName::Log(named) => named,
            ListedName::VersionOne(name, place) => {
                let (turns, messages, updated_at_ms) = (place.turns, place.messages, place.updated_at_ms);
                let resumes = place.backend();
                return Ok(Some(ConversationSummary { name, turns, messages, updated_at_ms, resumes }));
            }
        };
        let log = ConversationLogReader::open(&ConversationLog::path_of(&self.logs(), &named.log));
        let closing = log.and_then(|mut log| {
            let end = log.end()?;
            log.closing_line(end)
        });
        let name = named.name;
        // A log without a turn ends with its header: its only turns are those of the fork.
        Ok(Some(match closing.map_err(|error| in_conversation(error, path))? {
            ListedClosing::End(end) => ConversationSummary {
                name,
                turns: end.turns,
                messages: end.messages,
                updated_at_ms: end.stored_at_ms,
                resumes: end.resume.map(|handle| handle.backend),
            },
            ListedClosing::Conversation(header) => {
                let (turns, messages) = header.fork.map_or((0, 0), |fork| (fork.turns, fork.messages));
                let updated_at_ms = header.created_at_ms;
                ConversationSummary { name, turns, messages, updated_at_ms, resumes: None }
            }
        }))
    }

    /// Returns the summary of a conversation without reading its messages.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown); errors of reading.
    pub fn summary(&self, name: &ConversationName) -> Result<ConversationSummary, ConversationError> {
        let path = self.path_of(name);
        // Names that differ only in case share a file, so compare the name within it.
        NameFile::of(&path, name)?.ok_or_else(|| self.unknown(name))?;
        self.listed(&path)?.ok_or_else(|| self.unknown(name))
    }

    /// Measures the files of a conversation: its name and its log. What a fork shares is in the log that it was forked from.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown); errors of the file system.
    pub fn size(&self, name: &ConversationName) -> Result<FolderSize, ConversationError> {
        let path = self.path_of(name);
        let of =
            |path: &Path| FolderSize::of(path).map_err(|error| ConversationError::unusable(path, &error));
        let named = NameFile::of(&path, name)?.ok_or_else(|| self.unknown(name))?;
        let mut size = of(&path)?;
        if let NameFile::Log(named) = named {
            let log = of(&ConversationLog::path_of(&self.logs(), &named.log))?;
            size.files += log.files;
            size.bytes = size.bytes.saturating_add(log.bytes);
        }
        Ok(size)
    }

    /// Reads a conversation.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown); [`Damaged`](ConversationErrorKind::Damaged) if one of its files was
    /// changed from outside.
    pub fn load(&self, name: &ConversationName) -> Result<Conversation, ConversationError> {
        let outcome = self.known(name).and_then(|found| self.load_to(&found));
        // If the conversation was deleted during the read, report it as unknown and not as damaged.
        if outcome.is_err() && !self.path_of(name).exists() {
            return Err(self.unknown(name));
        }
        outcome
    }

    /// Deletes a name, even a damaged one. Its log, and logs that only it reads, stay until the next
    /// [`Conversations::sweep`]. Returns the vendor's handle, whose own conversation is the caller's
    /// responsibility: to forget it reliably, forget it first, by
    /// [`HeldConversation::resume`](crate::HeldConversation::resume).
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown), [`InUse`](ConversationErrorKind::InUse),
    /// [`NewerVersion`](ConversationErrorKind::NewerVersion); errors of the file system.
    pub fn delete(&self, name: &ConversationName) -> Result<Option<ResumeHandle>, ConversationError> {
        let path = self.path_of(name);
        // Look before the lock, because locking creates a file for the name.
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(self.unknown(name));
        }
        let hold = self.lock_name(name, Duration::ZERO)?;
        let outcome = match self.end_of(name) {
            Ok(found) => Ok(found.and_then(|found| found.state.resume)),
            // Damage must not prevent the deletion, but the vendor's handle is then lost.
            Err(error) if error.kind == ConversationErrorKind::Damaged => Ok(None),
            Err(error) => Err(error),
        };
        let outcome = outcome.and_then(|handle| self.remove(name).map(|()| handle));
        self.let_go(name, hold);
        outcome
    }

    /// Removes a name that this process has locked.
    pub(crate) fn remove(&self, name: &ConversationName) -> Result<(), ConversationError> {
        let path = self.path_of(name);
        let store = self.lock_store(STORE_PATIENCE)?;
        let removed =
            // Flush the folder, so that a power failure does not bring the conversation back.
            fs::remove_file(&path).and_then(|()| fs::File::open(self.folder.join("names"))?.sync_all());
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.unknown(name),
            _ => ConversationError::unusable(&path, &error),
        })?;
        drop(store);
        self.record(name, "removed");
        Ok(())
    }

    pub(crate) fn record(&self, name: &ConversationName, what: &str) {
        log_unrecorded(self.journal.record(JournalKind::Conversation, name.as_str(), what));
    }

    pub(crate) fn known(&self, name: &ConversationName) -> Result<ConversationEnd, ConversationError> {
        self.end_without_handle(name)?.ok_or_else(|| self.unknown(name))
    }

    pub(crate) fn unknown(&self, name: &ConversationName) -> ConversationError {
        let message = format!("the conversation {name} does not exist in {}", self.folder.display());
        ConversationError::unknown(message, "run `nexus conversation list` to see their names")
    }
}
