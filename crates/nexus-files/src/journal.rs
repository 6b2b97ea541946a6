//! The journal of a home: a log of changes to its state, in order.

use std::{
    fmt, fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{FileLock, JsonLinesLog, rfc3339};

/// Names of the journal's files in a home: the present file, and the previous one.
const NAME: &str = "journal.jsonl";
const OLDER_NAME: &str = "journal.1.jsonl";
/// Size at which a new file begins, in bytes. An entry has about 120.
const MAX_BYTES: u64 = 1 << 20;
/// Longest line, in bytes. Source: the longest texts of an entry, with every byte escaped.
const MAX_LINE_BYTES: u64 = 16 << 10;
/// Longest texts of an entry, in bytes. Longer texts are cut.
const MAX_ID_BYTES: usize = 1 << 10;
const MAX_WORD_BYTES: usize = 100;
/// Longest wait for other writers. A writer locks the file for some microseconds, unless it is suspended.
const PATIENCE: Duration = Duration::from_secs(1);
/// Largest number that every JSON parser reads exactly. A line with a larger number is damaged.
const MAX_SEQ: u64 = (1 << 53) - 1;
/// Shortest time between two failures that are returned.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// An append-only log of the changes of state in a home, for readers that follow these changes.
///
/// | file | content |
/// | --- | --- |
/// | `journal.jsonl` | the newest entries, one per line; a writer locks it |
/// | `journal.1.jsonl` | earlier entries; replaced when the newer file has 1 MiB |
///
/// A service writes its state first and its entry second. The state files stay authoritative: an entry only states that some work should be
/// read again. An entry may be missing, because a process was killed between the two writes, the disk was full or the power failed. A
/// reader therefore scans the state when it starts, once an hour, and when [`read_after`](Self::read_after) returns
/// [`JournalRead::Rescan`].
///
/// Entries have consecutive numbers, from all processes together. The numbers of a new journal begin at the present microseconds since
/// 1970, so a reader notices when a journal was removed and begun again.
pub struct Journal {
    log: JsonLinesLog<JournalEntry>,
    older: JsonLinesLog<JournalEntry>,
    max_bytes: u64,
    failed_at: Mutex<Option<Instant>>,
}

/// One change of state.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Number of the entry, one more than that of the previous entry.
    #[serde(deserialize_with = "valid_seq")]
    pub seq: u64,
    /// Time of the entry, which is after the change.
    #[serde(with = "rfc3339::as_millis")]
    pub time: SystemTime,
    /// Kind of thing that changed.
    pub kind: JournalKind,
    /// Name of the thing, unique within its kind.
    #[serde(default)]
    pub id: String,
    /// The change in one word, such as `created`.
    #[serde(default)]
    pub what: String,
}

/// Kind of thing that changed.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JournalKind {
    /// Unknown things: the state was scanned because the journal lacked changes.
    Home,
    /// A task. Its id is that of the task.
    Task,
    /// A debate. Its id is that of the debate.
    Debate,
    /// A conversation. Its id is its name.
    Conversation,
    /// An experiment of the testbed. Its id is the path of its folder.
    Testbed,
    /// A message of the broker. Its id is that of the message.
    Message,
    /// An agent of the broker. Its id is its name.
    Agent,
    /// A trigger of the broker. Its id is that of the trigger.
    Trigger,
    /// A kind that this version does not know.
    Other(String),
}

/// Entries of a journal after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JournalRead {
    /// All entries, the oldest first.
    Entries(Vec<JournalEntry>),
    /// Some entries no longer exist, or the journal was begun again. The reader must scan the state, and continue after `last`.
    Rescan {
        /// Number of the last entry. Zero for an empty journal.
        last: u64,
    },
}

impl Journal {
    /// Opens the journal of the home at `home`. Reads and creates nothing yet.
    pub fn in_home(home: &Path) -> Self {
        Self {
            log: JsonLinesLog::at(home.join(NAME), MAX_LINE_BYTES),
            older: JsonLinesLog::at(home.join(OLDER_NAME), MAX_LINE_BYTES),
            max_bytes: MAX_BYTES,
            failed_at: Mutex::default(),
        }
    }

    /// Begins a new file at `max_bytes` bytes, in place of 1 MiB.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Returns the path of the present file. Each entry modifies the file, and a rotation renames it.
    pub fn path(&self) -> &Path {
        self.log.path()
    }

    /// Appends an entry for a change that is already on the disk. A failure must not fail the change: the caller logs the returned error
    /// and continues. For a minute after a returned error, further failures are not returned. A missing home has no journal; that is not a
    /// failure.
    #[must_use = "a failure is logged"]
    pub fn record(&self, kind: JournalKind, id: &str, what: &str) -> Option<io::Error> {
        let error = self.append(kind, id, what).err()?;
        if error.kind() == io::ErrorKind::NotFound {
            return None;
        }
        let mut failed_at = self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        if failed_at.is_some_and(|failed_at| failed_at.elapsed() < FAILURE_PAUSE) {
            return None;
        }
        *failed_at = Some(Instant::now());
        let reason =
            format!("{}: {error}; readers see the change with their next scan", self.path().display());
        Some(io::Error::new(error.kind(), reason))
    }

    /// Appends an entry, and creates the journal if it is missing. The home must exist. Waits up to a second for other writers. Returns the
    /// number of the entry. An entry is not flushed to the disk.
    ///
    /// # Errors
    ///
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if another writer does not release the lock in time.
    /// [`InvalidData`](io::ErrorKind::InvalidData) if the path is not a regular file. Otherwise the error of the file system. The journal
    /// is then unchanged.
    pub fn append(&self, kind: JournalKind, id: &str, what: &str) -> io::Result<u64> {
        let cut = |text: &str, most| text[..text.floor_char_boundary(most)].to_owned();
        loop {
            let Some(lock) = FileLock::lock(self.path(), PATIENCE)? else {
                let reason = "another process has had the lock for a second";
                return Err(io::Error::new(io::ErrorKind::WouldBlock, reason));
            };
            let length = lock.file().metadata()?.len();
            if length >= self.max_bytes.max(1) {
                // The new file continues the numbers of the older one. Writers that wait for the lock notice that the path has another
                // file.
                fs::rename(self.path(), self.older.path())?;
                continue;
            }
            let now = SystemTime::now();
            let seq = match self.last_seq()? {
                0 => first_seq(now),
                last => last + 1,
            };
            let time = rfc3339::cut_to_millis(now);
            let (id, what) = (cut(id, MAX_ID_BYTES), cut(what, MAX_WORD_BYTES));
            self.log.append_unflushed(lock.file(), &JournalEntry { seq, time, kind, id, what })?;
            return Ok(seq);
        }
    }

    /// Returns the number of the last entry. Zero for an empty journal.
    ///
    /// # Errors
    ///
    /// [`InvalidData`](io::ErrorKind::InvalidData) if a path is not a regular file. Otherwise the error of the
    /// file system.
    pub fn last_seq(&self) -> io::Result<u64> {
        let last = match self.log.last()? {
            // No entry was appended since the last rotation.
            None => self.older.last()?,
            last => last,
        };
        Ok(last.map_or(0, |entry| entry.seq))
    }

    /// Reads the entries after the one with the number `seq`. Takes no lock. The number 0 stands for a reader that has seen none.
    ///
    /// # Errors
    ///
    /// Errors of [`last_seq`](Self::last_seq).
    pub fn read_after(&self, seq: u64) -> io::Result<JournalRead> {
        let is_seen = |entry: &JournalEntry| entry.seq <= seq;
        let mut entries = self.log.read_back_to(is_seen)?;
        if !entries.first().is_some_and(is_seen) {
            let newer = std::mem::replace(&mut entries, self.older.read_back_to(is_seen)?);
            // A rotation between the two reads turns the present file into the older one.
            let known = entries.last().map_or(0, |entry| entry.seq);
            entries.extend(newer.into_iter().filter(|entry| entry.seq > known));
        }
        let last = entries.last().map_or(0, |entry| entry.seq);
        entries.retain(|entry| !is_seen(entry));
        let is_whole = entries.iter().zip(seq.saturating_add(1)..).all(|(entry, due)| entry.seq == due);
        match is_whole && last >= seq {
            true => Ok(JournalRead::Entries(entries)),
            false => Ok(JournalRead::Rescan { last }),
        }
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl JournalKind {
    fn name(&self) -> &str {
        match self {
            Self::Home => "home",
            Self::Task => "task",
            Self::Debate => "debate",
            Self::Conversation => "conversation",
            Self::Testbed => "testbed",
            Self::Message => "message",
            Self::Agent => "agent",
            Self::Trigger => "trigger",
            Self::Other(name) => name,
        }
    }
}

impl From<&str> for JournalKind {
    fn from(name: &str) -> Self {
        match name {
            "home" => Self::Home,
            "task" => Self::Task,
            "debate" => Self::Debate,
            "conversation" => Self::Conversation,
            "testbed" => Self::Testbed,
            "message" => Self::Message,
            "agent" => Self::Agent,
            "trigger" => Self::Trigger,
            other => Self::Other(other[..other.floor_char_boundary(MAX_WORD_BYTES)].to_owned()),
        }
    }
}

impl fmt::Display for JournalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for JournalKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for JournalKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self::from(name.as_str()))
    }
}

fn valid_seq<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    match u64::deserialize(deserializer)? {
        seq @ 1..MAX_SEQ => Ok(seq),
        _ => Err(de::Error::custom("the number must be above 0 and within the range of a journal")),
    }
}

/// Returns the first number of a new journal.
fn first_seq(now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(1).clamp(1, MAX_SEQ / 2)
}
