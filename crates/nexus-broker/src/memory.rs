//! Full-text index of sessions: the messages that agents received and wrote.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_conversations::{
    Conversation, ConversationErrorKind, ConversationMessage, ConversationSummary, Conversations,
};
use nexus_core::PromptBlock;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _, Statement, Transaction, ffi, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    error::{BrokerError, BrokerErrorKind, of_conversation},
    session_key::{MAIN, SessionKey},
    store::make_private,
};
use nexus_files::rfc3339;

/// Longest time for which another process may lock the file.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// Maximum number of results of one query.
const MOST_FOUND: usize = 50;
/// Number of words that a result shows around a match.
const WORDS_SHOWN: i64 = 40;
/// Maximum number of words in a query.
const MOST_WORDS: usize = 32;
/// Version of the tables. An index of another version is built again from the conversations, which contain everything.
const VERSION: i64 = 2;

/// A message that forks share is stored once in `said` and `message`. `place` has a row for each session that contains it.
const TABLES: &str = "
    CREATE VIRTUAL TABLE message USING fts5(text, tokenize = 'unicode61 remove_diacritics 2');
    CREATE TABLE said (
        id INTEGER PRIMARY KEY, identity BLOB NOT NULL UNIQUE, at INTEGER NOT NULL, role TEXT NOT NULL
    ) STRICT;
    CREATE TABLE session (
        id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, agent TEXT NOT NULL, messages INTEGER NOT NULL,
        last BLOB NOT NULL, updated_at_ms INTEGER
    ) STRICT;
    CREATE TABLE place (
        session INTEGER NOT NULL, number INTEGER NOT NULL, said INTEGER NOT NULL, PRIMARY KEY (session, number)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX place_of_said ON place (said, session);
";
/// Drops the tables of this version and of the previous one.
const DROP_TABLES: &str = "
    DROP TABLE IF EXISTS message;
    DROP TABLE IF EXISTS said;
    DROP TABLE IF EXISTS session;
    DROP TABLE IF EXISTS place;
";

/// A message that a query found.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryHit {
    /// The session, as `agent:NAME:CONTEXT`.
    pub session: String,
    /// Number of the message in the session, counted from 1.
    pub message: u64,
    /// End time of its turn. RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub at: SystemTime,
    /// Role of the author: user, assistant or tool.
    pub role: String,
    /// Words around the match.
    pub text: String,
}

/// Full-text index of the sessions of a home, in one file. The file may be removed: the index is then built again. Clones
/// share one connection.
#[derive(Clone)]
pub struct MemoryIndex {
    path: Arc<PathBuf>,
    connection: Arc<Mutex<Connection>>,
}

impl fmt::Debug for MemoryIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryIndex").field("path", &self.path).finish_non_exhaustive()
    }
}

impl MemoryIndex {
    /// Opens the index, and creates it if it does not exist. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), [`NoSpace`](BrokerErrorKind::NoSpace) and
    /// [`Damaged`](BrokerErrorKind::Damaged), which name the file. A damaged file can be removed.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BrokerError> {
        let path = path.into();
        make_private(&path).map_err(|error| {
            BrokerError::new(BrokerErrorKind::Failed, format!("{}: {error}", path.display()), "")
        })?;
        let connection = connect(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self { path: Arc::new(path), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Indexes the new messages of a session. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), [`NoSpace`](BrokerErrorKind::NoSpace). The next call indexes the remaining
    /// messages.
    pub fn capture(&self, key: &SessionKey, conversation: &Conversation) -> Result<(), BrokerError> {
        self.take_in(key, conversation, None)
    }

    /// Indexes messages of a session. `updated_at_ms`: time of the last change of the conversation, if `messages` has all of
    /// that change.
    fn take_in(
        &self,
        key: &SessionKey,
        conversation: &Conversation,
        updated_at_ms: Option<u64>,
    ) -> Result<(), BrokerError> {
        let messages = identified(conversation);
        self.work(|connection| {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let found: Option<(i64, usize, Vec<u8>)> = transaction
                .query_row(
                    "SELECT id, messages, last FROM session WHERE key = ?1",
                    [key.to_string()],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .optional()?;
            // If the last indexed message is still at its position, only the messages after it are new.
            let goes_on = |known: usize, last: &[u8]| match known.checked_sub(1) {
                None => true,
                Some(at) => messages.get(at).is_some_and(|message| message.identity[..] == *last),
            };
            let known = match found {
                Some((id, known, last)) if goes_on(known, &last) => Some((id, known)),
                // The name belongs to another conversation now, so drop the messages of the old one.
                Some((id, ..)) => {
                    forget(&transaction, id)?;
                    None
                }
                None => None,
            };
            let last = messages.last().map_or_else(Vec::new, |message| message.identity.to_vec());
            let (session, known) = match known {
                Some((id, known)) => {
                    transaction.execute(
                        "UPDATE session SET messages = ?2, last = ?3, updated_at_ms = ?4 WHERE id = ?1",
                        params![id, messages.len(), last, updated_at_ms],
                    )?;
                    (id, known)
                }
                None => {
                    transaction.execute(
                        "INSERT INTO session (key, agent, messages, last, updated_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)",
                        params![key.to_string(), key.agent(), messages.len(), last, updated_at_ms],
                    )?;
                    (transaction.last_insert_rowid(), 0)
                }
            };
            let mut adding = Adding::to(&transaction)?;
            for (at, message) in messages.iter().enumerate().skip(known) {
                if !message.text.is_empty() {
                    let said = adding.say(&transaction, message)?;
                    adding.place.execute(params![session, at + 1, said])?;
                }
            }
            // `adding` borrows the transaction, which `commit` consumes.
            drop(adding);
            transaction.commit()
        })
    }

    /// Indexes all sessions of a home, including sessions from before the index existed. Blocks.
    ///
    /// # Errors
    ///
    /// Errors of [`MemoryIndex::capture`], and of reading the sessions. An unreadable session does not stop the others: its
    /// error is returned after all are indexed.
    pub fn capture_all(&self, conversations: &Conversations) -> Result<(), BrokerError> {
        let list = conversations.list().map_err(of_conversation)?;
        let mut failure = list.unreadable.into_iter().next().map(of_conversation);
        let keyed = |summary: ConversationSummary| {
            SessionKey::of_conversation(&summary.name).map(|key| (key, summary))
        };
        let mut sessions: Vec<_> = list.conversations.into_iter().filter_map(keyed).collect();
        // A result shows a shared message under the session that was indexed first, so index "main" first: forks rarely have
        // that name.
        sessions.sort_by_key(|(key, _)| (key.context() != MAIN, key.clone()));
        for (key, summary) in &sessions {
            let known: Option<(u64, Option<u64>)> = self.work(|connection| {
                connection
                    .query_row(
                        "SELECT messages, updated_at_ms FROM session WHERE key = ?1",
                        [key.to_string()],
                        |row| Ok((row.get(0)?, row.get(1)?)),
                    )
                    .optional()
            })?;
            if known == Some((summary.messages, Some(summary.updated_at_ms))) {
                continue;
            }
            match conversations.load(&summary.name) {
                Ok(conversation) => self.take_in(key, &conversation, Some(summary.updated_at_ms))?,
                // The session was deleted meanwhile.
                Err(error) if error.kind == ConversationErrorKind::Unknown => {}
                Err(error) => failure = failure.or(Some(of_conversation(error))),
            }
        }
        // Remove deleted sessions from the index.
        let there: BTreeSet<_> = sessions.iter().map(|(key, _)| key.to_string()).collect();
        self.work(|connection| {
            let transaction =
                connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let known: Vec<(i64, String)> = transaction
                .prepare("SELECT id, key FROM session")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect::<Result<_, _>>()?;
            for (id, _) in known.iter().filter(|(_, key)| !there.contains(key)) {
                forget(&transaction, *id)?;
            }
            transaction.commit()
        })?;
        failure.map_or(Ok(()), Err)
    }

    /// Finds messages in the sessions of agents that `may_read` allows, best match first. Returns messages with all of the
    /// words, or else messages with some of them. Blocks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](BrokerErrorKind::Invalid) for a query without a word; [`Failed`](BrokerErrorKind::Failed).
    pub fn query(
        &self,
        text: &str,
        at_most: usize,
        may_read: impl Fn(&str) -> bool,
    ) -> Result<Vec<MemoryHit>, BrokerError> {
        // Quote each word, so that SQLite reads none of it as an operator.
        let words: Vec<_> = text
            .split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(MOST_WORDS)
            .map(|word| format!("\"{word}\""))
            .collect();
        if words.is_empty() {
            return Err(BrokerError::invalid("the text has no word to search for", "name some"));
        }
        let at_most = at_most.clamp(1, MOST_FOUND);
        let mut found = self.find(&words.join(" AND "), at_most, &may_read)?;
        if found.is_empty() && words.len() > 1 {
            found = self.find(&words.join(" OR "), at_most, &may_read)?;
        }
        Ok(found)
    }

    fn find(
        &self,
        expression: &str,
        at_most: usize,
        may_read: &impl Fn(&str) -> bool,
    ) -> Result<Vec<MemoryHit>, BrokerError> {
        self.work(|connection| {
            let mut statement = connection.prepare(
                "SELECT said.id, said.at, said.role, snippet(message, 0, '', '', '…', ?2)
                 FROM message JOIN said ON said.id = message.rowid
                 WHERE message MATCH ?1 ORDER BY rank, message.rowid",
            )?;
            let mut places = connection.prepare(
                "SELECT session.key, session.agent, place.number
                 FROM place JOIN session ON session.id = place.session WHERE place.said = ?1 ORDER BY session.id",
            )?;
            let mut rows = statement.query(params![expression, WORDS_SHOWN])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let mut sessions = places.query([row.get::<_, i64>(0)?])?;
                while let Some(place) = sessions.next()? {
                    if !may_read(&place.get::<_, String>(1)?) {
                        continue;
                    }
                    let at: u64 = row.get(1)?;
                    found.push(MemoryHit {
                        session: place.get(0)?,
                        message: place.get(2)?,
                        at: UNIX_EPOCH.checked_add(Duration::from_millis(at)).unwrap_or(UNIX_EPOCH),
                        role: row.get(2)?,
                        text: row.get(3)?,
                    });
                    break;
                }
                if found.len() == at_most {
                    break;
                }
            }
            Ok(found)
        })
    }

    fn work<T>(&self, work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>) -> Result<T, BrokerError> {
        work(&mut self.lock()).map_err(|error| failed(&self.path, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIME)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version != VERSION {
        transaction.execute_batch(DROP_TABLES)?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

fn failed(path: &Path, error: &rusqlite::Error) -> BrokerError {
    let shared_file = |failure: &rusqlite::ffi::Error| failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE;
    let (kind, instead) = match error.sqlite_error() {
        Some(failure) if failure.code == ErrorCode::DiskFull || shared_file(failure) => {
            (BrokerErrorKind::NoSpace, "free disk space: missing messages are indexed at the next attempt")
        }
        Some(failure) if matches!(failure.code, ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            (BrokerErrorKind::Damaged, "remove the file: the broker rebuilds it from the conversations")
        }
        Some(failure) if matches!(failure.code, ErrorCode::ReadOnly | ErrorCode::CannotOpen) => {
            (BrokerErrorKind::Failed, "give this user the right to write it")
        }
        Some(_) => (BrokerErrorKind::Failed, ""),
        // SQLite reported no error: a stored value has another type than this version writes.
        None => (BrokerErrorKind::Damaged, "remove the file: the broker rebuilds it from the conversations"),
    };
    BrokerError::new(kind, format!("{}: {error}", path.display()), instead)
}

/// A message of a session, with its identity.
struct IdentifiedMessage {
    /// Hash of the message and of all messages before it. Only forks of one conversation share identities.
    identity: [u8; 32],
    at_ms: u64,
    role: &'static str,
    text: String,
}

fn identified(conversation: &Conversation) -> Vec<IdentifiedMessage> {
    let mut messages = Vec::new();
    let mut identity = [0; 32];
    for turn in &conversation.turns {
        for message in &turn.messages {
            let mut hash = Sha256::new();
            hash.update(identity);
            hash.update(turn.ended_at_ms.to_le_bytes());
            hash.update(serde_json::to_vec(message).unwrap_or_default());
            identity = hash.finalize().into();
            let (role, text) = text_of(message);
            messages.push(IdentifiedMessage { identity, at_ms: turn.ended_at_ms, role, text });
        }
    }
    messages
}

/// Prepared statements that add a message.
struct Adding<'t> {
    known: Statement<'t>,
    said: Statement<'t>,
    text: Statement<'t>,
    place: Statement<'t>,
}

impl<'t> Adding<'t> {
    fn to(transaction: &'t Transaction<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            known: transaction.prepare("SELECT id FROM said WHERE identity = ?1")?,
            said: transaction.prepare("INSERT INTO said (identity, at, role) VALUES (?1, ?2, ?3)")?,
            text: transaction.prepare("INSERT INTO message (rowid, text) VALUES (?1, ?2)")?,
            place: transaction.prepare("INSERT INTO place VALUES (?1, ?2, ?3)")?,
        })
    }

    /// Adds a message, unless another session has it already. Returns its row id.
    fn say(&mut self, transaction: &Transaction<'_>, message: &IdentifiedMessage) -> rusqlite::Result<i64> {
        let known = self.known.query_row([message.identity], |row| row.get(0)).optional()?;
        if let Some(id) = known {
            return Ok(id);
        }
        self.said.execute(params![message.identity, message.at_ms, message.role])?;
        let id = transaction.last_insert_rowid();
        self.text.execute(params![id, message.text])?;
        Ok(id)
    }
}

/// Removes a session, and its messages that no other session has.
fn forget(transaction: &Transaction<'_>, session: i64) -> rusqlite::Result<()> {
    for table in ["DELETE FROM message WHERE rowid", "DELETE FROM said WHERE id"] {
        transaction.execute(
            &format!(
                "{table} IN (SELECT said FROM place AS its WHERE session = ?1 AND NOT EXISTS
                    (SELECT 1 FROM place WHERE place.said = its.said AND place.session <> ?1))"
            ),
            [session],
        )?;
    }
    transaction.execute("DELETE FROM place WHERE session = ?1", [session])?;
    transaction.execute("DELETE FROM session WHERE id = ?1", [session])?;
    Ok(())
}

/// Returns the role of the author of a message, and its text.
fn text_of(message: &ConversationMessage) -> (&'static str, String) {
    let text_of_blocks = |blocks: &[PromptBlock]| {
        let texts = blocks.iter().filter_map(|block| match block {
            PromptBlock::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    match message {
        ConversationMessage::User { content } => ("user", text_of_blocks(content)),
        ConversationMessage::Assistant { text, .. } => ("assistant", text.clone()),
        ConversationMessage::ToolCall { tool, arguments, output, .. } => {
            let arguments = arguments.as_deref().unwrap_or_default();
            ("tool", format!("{tool} {arguments}\n{}", text_of_blocks(output)))
        }
        _ => ("", String::new()),
    }
}
