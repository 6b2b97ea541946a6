//! The conversations of one home, by name.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use nexus_core::{BackendId, ResumeHandle, ServiceFault, log_unrecorded};
use nexus_files::{FileLock, HomeIndex, IndexEntry, Journal, JournalKind, WorkFiles};
use serde::{Deserialize, Serialize};

use crate::{
    conversation::{Conversation, ConversationTurn},
    conversation_error::{ConversationError, ConversationErrorKind, in_conversation},
    name::ConversationName,
    named::NamedPlace,
    step,
    turn_file::{ConversationPoint, Node, NodeId},
};

/// The folder of conversations in a home.
const FOLDER: &str = "conversations";
/// Longest wait for the lock of the store. Adding a turn waits without limit, because the turn was already paid for. Writers
/// own the lock while they add a turn, and a sweep owns it while it runs.
const STORE_PATIENCE: Duration = Duration::from_secs(60);
/// Shortest wait for the lock of a name. Its release and a sweep also lock it for a moment.
const NAME_PATIENCE: Duration = Duration::from_millis(50);

/// The conversations below one folder.
///
/// | file | content |
/// | --- | --- |
/// | `nodes/HASH.json` | one turn and a pointer to the turn before it; immutable, named by the SHA-256 of its bytes |
/// | `names/NAME.json` | the position of the conversation NAME, and the vendor's handle to resume it; replaced in one step |
/// | `locks/NAME.lock` | empty; locked by a process that runs a turn of NAME |
/// | `store.lock` | empty; locked by a process while it adds a turn, forks, deletes or sweeps |
///
/// Files have mode 0600, folders 0700. A turn is written and flushed before the name points to it. So if a process dies, the
/// conversation is unchanged or has the whole turn, and is not locked. Readers need no lock.
///
/// Every call reads or writes files: in async code, call it inside `spawn_blocking`.
#[derive(Clone, Debug)]
pub struct Conversations {
    home: PathBuf,
    folder: PathBuf,
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

/// Result of a sweep.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConversationSweep {
    /// Number of removed files: turns that no conversation has any more, and unfinished files.
    pub files: u64,
    /// Size of these files, in bytes.
    pub bytes: u64,
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
        let files = |path: PathBuf| WorkFiles {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            files: vec![path],
        };
        let found: Vec<_> = self.names()?.into_iter().map(files).collect();
        let kind = JournalKind::Conversation;
        let index = HomeIndex::in_home(&self.home, Arc::clone(&self.journal));
        let listed = index.refresh(FOLDER, &kind, &found, |work| match work.files.as_slice() {
            [path] => self.entry(path),
            _ => Ok(None),
        });
        let mut conversations: Vec<_> =
            listed.entries.into_iter().filter_map(|entry| entry.details).collect();
        conversations.sort_by(|one: &ConversationSummary, other| one.name.cmp(&other.name));
        Ok(ConversationList { conversations, unreadable: listed.unreadable })
    }

    /// Returns the index entry of the conversation whose name has the file at `path`. `None` if it was deleted
    /// meanwhile.
    fn entry(&self, path: &Path) -> Result<Option<IndexEntry<ConversationSummary>>, ConversationError> {
        let Some(found) = NamedPlace::read(path)? else { return Ok(None) };
        if self.path_of(&found.name) != path {
            let reason = format!("it is that of {:?}", found.name.as_str());
            return Err(ConversationError::damaged(path, reason));
        }
        let found = summary(found);
        let updated_at = UNIX_EPOCH.checked_add(Duration::from_millis(found.updated_at_ms));
        let (name, updated_at) = (found.name.as_str(), updated_at.unwrap_or(UNIX_EPOCH));
        let mut entry = IndexEntry::new(JournalKind::Conversation, name, name, updated_at);
        entry.details = Some(found);
        Ok(Some(entry))
    }

    /// Returns the summary of a conversation without reading its messages.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown); errors of reading.
    pub fn summary(&self, name: &ConversationName) -> Result<ConversationSummary, ConversationError> {
        self.known(name).map(summary)
    }

    /// Reads a conversation.
    ///
    /// # Errors
    ///
    /// [`Unknown`](ConversationErrorKind::Unknown); [`Damaged`](ConversationErrorKind::Damaged) if one of its files was
    /// changed from outside.
    pub fn load(&self, name: &ConversationName) -> Result<Conversation, ConversationError> {
        let found = self.known(name)?;
        let outcome = self.load_from(&found);
        // If the conversation was deleted during the read, report it as unknown and not as damaged.
        if outcome.is_err() {
            self.known(name)?;
        }
        outcome
    }

    /// Forks the conversation `from` under the new name `to`, up to and including the message `at`. `None`: all messages.
    /// Messages are counted from 1. Nothing is copied. The fork has no vendor's handle: its first turn shows the messages to
    /// the model.
    ///
    /// # Errors
    ///
    /// [`NameTaken`](ConversationErrorKind::NameTaken), [`NoSuchMessage`](ConversationErrorKind::NoSuchMessage),
    /// [`Unknown`](ConversationErrorKind::Unknown), [`InUse`](ConversationErrorKind::InUse); errors of reading and writing.
    pub fn fork(
        &self,
        from: &ConversationName,
        to: &ConversationName,
        at: Option<u64>,
    ) -> Result<ConversationSummary, ConversationError> {
        // Check this first, so that an unknown name creates no folder.
        self.known(from)?;
        let hold = self.lock_name(to, Duration::ZERO)?;
        let outcome = (|| {
            let _store = self.lock_store(STORE_PATIENCE)?;
            let source = self.known(from)?;
            if NamedPlace::of(&self.path_of(to), to)?.is_some() {
                return Err(ConversationError::new(
                    ConversationErrorKind::NameTaken,
                    format!("the conversation {to} already exists"),
                    "choose another name, or delete that conversation",
                ));
            }
            let mut fork = NamedPlace::new(to.clone());
            (fork.turns, fork.messages, fork.place) = match at {
                None => (source.turns, source.messages, source.place),
                Some(at) => self.resolve(&source, at)?,
            };
            fork.write(&self.path_of(to))?;
            Ok(summary(fork))
        })();
        self.let_go(to, hold);
        if outcome.is_ok() {
            self.record(to, "created");
        }
        outcome
    }

    /// Deletes a name, even a damaged one. Turns that no other name reaches stay until the next
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
        if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Err(self.unknown(name));
        }
        let hold = self.lock_name(name, Duration::ZERO)?;
        let outcome = match NamedPlace::of(&path, name) {
            Ok(found) => Ok(found.and_then(|found| found.resume)),
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
            fs::remove_file(&path).and_then(|()| fs::File::open(self.folder.join("names"))?.sync_all());
        removed.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => self.unknown(name),
            _ => ConversationError::unusable(&path, &error),
        })?;
        drop(store);
        self.record(name, "removed");
        Ok(())
    }

    /// Removes turns that no name reaches, and unfinished files of killed processes. Processes that add a turn wait
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of reading. If one conversation cannot be read, nothing is removed, because its turns are unknown.
    pub fn sweep(&self) -> Result<ConversationSweep, ConversationError> {
        let mut swept = ConversationSweep::default();
        if !self.folder.exists() {
            return Ok(swept);
        }
        // Read most files before the lock is taken, because ending turns wait for it. A failure here occurs again below.
        let mut reached = HashSet::new();
        let _ = self.mark(&mut reached);
        let _store = self.lock_store(STORE_PATIENCE)?;
        self.mark(&mut reached)?;
        let is_reached = |path: &Path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            stem.parse::<NodeId>().is_ok_and(|id| reached.contains(&id))
        };
        let mut gone: Vec<PathBuf> = self.files("nodes", ".json")?;
        gone.retain(|path| !is_reached(path));
        // Every writer owns the lock of the store, so these files have no writer.
        gone.extend(self.unfinished("nodes")?);
        gone.extend(self.unfinished("names")?);
        for path in gone {
            let unusable = |error: io::Error| ConversationError::unusable(&path, &error);
            swept.bytes += fs::symlink_metadata(&path).map_err(unusable)?.len();
            fs::remove_file(&path).map_err(unusable)?;
            swept.files += 1;
        }
        // Remove the locks of names without a conversation. A lock that is in use belongs to a first turn.
        for path in self.files("locks", ".lock")? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            if let Ok(name) = stem.parse()
                && !self.path_of(&name).exists()
                && let Ok(Some(hold)) = FileLock::try_lock(&path)
            {
                self.let_go(&name, hold);
            }
        }
        Ok(swept)
    }

    /// Adds the turns that the names reach. Stops at a known turn, because the turns before it are known, too.
    fn mark(&self, reached: &mut HashSet<NodeId>) -> Result<(), ConversationError> {
        let nodes = self.folder.join("nodes");
        for path in self.names()? {
            let mut next = NamedPlace::read(&path)?.and_then(|found| found.place);
            let mut chain = Vec::new();
            while let Some(ConversationPoint { node: id, .. }) = next
                && !reached.contains(&id)
            {
                next = Node::read_parent(&nodes, &id).map_err(|error| in_conversation(error, &path))?;
                chain.push(id);
            }
            reached.extend(chain);
        }
        Ok(())
    }

    /// Adds a turn at the end of a conversation that this process has locked. Waits for other writers without limit.
    pub(crate) fn add(
        &self,
        mut named: NamedPlace,
        turn: ConversationTurn,
        mut resume: Option<ResumeHandle>,
    ) -> Result<NamedPlace, ConversationError> {
        let store = self.lock_store(Duration::MAX)?;
        let path = self.path_of(&named.name);
        let found =
            NamedPlace::of(&path, &named.name)?.unwrap_or_else(|| NamedPlace::new(named.name.clone()));
        // Only an earlier write with an unknown result can have moved the end. Its turn stays. The vendor of the new turn
        // has not seen that turn, so drop the handle.
        if found.place != named.place {
            named = found;
            resume = None;
        }
        let overflow = || {
            ConversationError::damaged(
                &path,
                "its counts of turns and messages are \
            inconsistent",
            )
        };
        let turns = named.turns.checked_add(1).ok_or_else(overflow)?;
        let messages = named.messages.checked_add(turn.messages.len() as u64).ok_or_else(overflow)?;
        step::passed();
        let node = Node::new(named.place.take(), named.turns, named.messages, turn);
        let id = node.write(&self.folder.join("nodes"))?;
        step::passed();
        named.place = Some(ConversationPoint { node: id, messages: None });
        (named.turns, named.messages) = (turns, messages);
        named.resume = resume;
        named.write(&path)?;
        step::passed();
        drop(store);
        self.record(&named.name, if named.turns == 1 { "created" } else { "changed" });
        Ok(named)
    }

    fn record(&self, name: &ConversationName, what: &str) {
        log_unrecorded(self.journal.record(JournalKind::Conversation, name.as_str(), what));
    }

    /// Returns the conversation of a name.
    pub(crate) fn load_from(&self, named: &NamedPlace) -> Result<Conversation, ConversationError> {
        if named.place.is_none() {
            self.check_counts(named)?;
        }
        let mut turns = Vec::new();
        let mut next = named.place.clone();
        let mut expected = (named.turns, named.messages);
        while let Some(place) = next {
            let node = self.node(&place, expected);
            let node = node.map_err(|error| in_conversation(error, &self.path_of(&named.name)))?;
            expected = (node.earlier_turns, node.earlier_messages);
            let mut turn = node.turn;
            if let Some(kept) = place.messages {
                turn.messages.truncate(kept);
            }
            turns.push(turn);
            next = node.parent;
        }
        turns.reverse();
        Ok(Conversation { turns })
    }

    /// Fails if the counts of turns and messages in the name's file differ from its last turn: an added turn could not be
    /// read again. An unreadable last turn is reported when it is read.
    pub(crate) fn check_counts(&self, named: &NamedPlace) -> Result<(), ConversationError> {
        let counts = (named.turns, named.messages);
        let is_right = match &named.place {
            None => counts == (0, 0),
            Some(place) => match Node::read(&self.folder.join("nodes"), &place.node) {
                Ok(node) => node.counts(place) == Some(counts),
                Err(_) => true,
            },
        };
        if is_right {
            return Ok(());
        }
        Err(ConversationError::damaged(&self.path_of(&named.name), "its number of turns is wrong"))
    }

    /// Returns the position of message `at` of a conversation, with the numbers of turns and messages up to it.
    fn resolve(
        &self,
        source: &NamedPlace,
        at: u64,
    ) -> Result<(u64, u64, Option<ConversationPoint>), ConversationError> {
        if at == 0 || at > source.messages {
            let message =
                format!("{} has no message {at}: it has {}, counted from 1", source.name, source.messages);
            return Err(ConversationError::new(ConversationErrorKind::NoSuchMessage, message, ""));
        }
        let mut next = source.place.clone();
        let mut expected = (source.turns, source.messages);
        while let Some(place) = next {
            let node = self.node(&place, expected)?;
            if at > node.earlier_messages {
                let kept = usize::try_from(at - node.earlier_messages).unwrap_or(usize::MAX);
                let messages = (kept < node.turn.messages.len()).then_some(kept);
                return Ok((
                    node.earlier_turns + 1,
                    at,
                    Some(ConversationPoint { node: place.node, messages }),
                ));
            }
            expected = (node.earlier_turns, node.earlier_messages);
            next = node.parent;
        }
        Err(ConversationError::damaged(&self.path_of(&source.name), "it counts more messages than exist"))
    }

    /// Returns the node at a position, and checks that the position has these counts of turns and messages.
    fn node(&self, place: &ConversationPoint, expected: (u64, u64)) -> Result<Node, ConversationError> {
        let folder = self.folder.join("nodes");
        let node = Node::read(&folder, &place.node)?;
        let begins_well = node.parent.is_some() || (node.earlier_turns, node.earlier_messages) == (0, 0);
        if node.counts(place) != Some(expected) || !begins_well {
            let path = folder.join(format!("{}.json", place.node));
            return Err(ConversationError::damaged(&path, "its numbers of turns and messages are wrong"));
        }
        Ok(node)
    }

    fn known(&self, name: &ConversationName) -> Result<NamedPlace, ConversationError> {
        NamedPlace::of(&self.path_of(name), name)?.ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &ConversationName) -> ConversationError {
        let message = format!("the conversation {name} does not exist in {}", self.folder.display());
        ConversationError::unknown(message, "run `nexus conversation list` to see their names")
    }

    pub(crate) fn path_of(&self, name: &ConversationName) -> PathBuf {
        self.folder.join("names").join(format!("{}.json", name.stem()))
    }

    fn lock_path_of(&self, name: &ConversationName) -> PathBuf {
        self.folder.join("locks").join(format!("{}.lock", name.stem()))
    }

    pub(crate) fn lock_name(
        &self,
        name: &ConversationName,
        patience: Duration,
    ) -> Result<FileLock, ConversationError> {
        self.lock(&self.lock_path_of(name), patience.max(NAME_PATIENCE), &|| self.in_use(name))
    }

    pub(crate) fn in_use(&self, name: &ConversationName) -> ConversationError {
        let message = format!("the conversation {name} is in use by another turn");
        ConversationError::new(ConversationErrorKind::InUse, message, "wait for it, or fork it")
    }

    fn lock_store(&self, patience: Duration) -> Result<FileLock, ConversationError> {
        let path = self.folder.join("store.lock");
        let in_use = || {
            let message = format!("{}: another process has been writing to it for a minute", path.display());
            ConversationError::of(ServiceFault::InUse, message)
        };
        self.lock(&path, patience, &in_use)
    }

    fn lock(
        &self,
        path: &Path,
        patience: Duration,
        in_use: &dyn Fn() -> ConversationError,
    ) -> Result<FileLock, ConversationError> {
        for folder in ["names", "nodes", "locks"].map(|name| self.folder.join(name)) {
            if !folder.is_dir() {
                // Flush the home, too: the folder of the store may be new.
                let home = &self.home;
                nexus_files::make_private_folder(&folder)
                    .and_then(|()| fs::File::open(&self.folder)?.sync_all())
                    .and_then(|()| fs::File::open(home)?.sync_all())
                    .map_err(ConversationError::at(&folder))?;
            }
        }
        let locked = FileLock::lock(path, patience).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => {
                let message = format!("{}: {error}, and is to be a lock", path.display());
                ConversationError::new(ConversationErrorKind::Damaged, message, "remove it")
            }
            _ => ConversationError::unusable(path, &error),
        })?;
        locked.ok_or_else(in_use)
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
    fn names(&self) -> Result<Vec<PathBuf>, ConversationError> {
        let mut names = self.files("names", ".json")?;
        names.retain(|path| {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            stem.parse::<ConversationName>().is_ok()
        });
        Ok(names)
    }

    /// Returns the files of a folder whose names have this ending, in no order.
    fn files(&self, folder: &str, ending: &str) -> Result<Vec<PathBuf>, ConversationError> {
        self.entries(folder, |name| name.ends_with(ending) && !name.starts_with('.'))
    }

    /// Returns unfinished files of writers in a folder.
    fn unfinished(&self, folder: &str) -> Result<Vec<PathBuf>, ConversationError> {
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

fn summary(named: NamedPlace) -> ConversationSummary {
    ConversationSummary {
        name: named.name,
        turns: named.turns,
        messages: named.messages,
        updated_at_ms: named.updated_at_ms,
        resumes: named.resume.map(|handle| handle.backend().clone()),
    }
}
