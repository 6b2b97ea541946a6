//! What agents said and were told, found again: a full text index of sessions.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_conversation::{Conversation, ConversationMessage, Conversations};
use nexus_core::PromptBlock;
use rusqlite::{Connection, OptionalExtension as _, params};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{BrokerError, BrokerErrorKind},
    rfc3339,
    session_key::SessionKey,
    store::make_private,
};

/// How long another process may keep the file to itself.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// The most that is found at a time.
const MOST_FOUND: usize = 50;
/// How many words around what was found are shown.
const WORDS_SHOWN: i64 = 40;
/// How many words a question may have.
const MOST_WORDS: usize = 32;
/// The version of the tables. An index of another one is made anew: all of it is in the conversations.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE VIRTUAL TABLE message USING fts5(
        session UNINDEXED, agent UNINDEXED, number UNINDEXED, at UNINDEXED, role UNINDEXED, text,
        tokenize = 'unicode61 remove_diacritics 2'
    );
    CREATE TABLE session (key TEXT PRIMARY KEY, messages INTEGER NOT NULL) STRICT;
";

/// One thing that was found.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryHit {
    /// The session, as `agent:NAME:CONTEXT`.
    pub session: String,
    /// Which message of it, counted from 1.
    pub message: u64,
    /// When its turn ended. RFC 3339, UTC.
    #[serde(with = "rfc3339")]
    #[schemars(with = "String")]
    pub at: SystemTime,
    /// user, assistant or tool.
    pub role: String,
    /// The words around what was found.
    pub text: String,
}

/// A full text index of the sessions of a home, in one file. It can be removed: what is missing is read again. Clones are one.
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
    /// Opens the index, and makes it where there is none. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed), which names the file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BrokerError> {
        let path = path.into();
        make_private(&path).map_err(|error| {
            BrokerError::new(BrokerErrorKind::Failed, format!("{}: {error}", path.display()), "")
        })?;
        let connection = connect(&path).map_err(|error| failed(&path, &error))?;
        Ok(Self { path: Arc::new(path), connection: Arc::new(Mutex::new(connection)) })
    }

    /// Takes in what is new in a session. Blocks.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed); what was not taken in is the next time.
    pub fn capture(&self, key: &SessionKey, conversation: &Conversation) -> Result<(), BrokerError> {
        self.work(|connection| {
            let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
            let key_text = key.to_string();
            let known: Option<u64> = transaction
                .query_row("SELECT messages FROM session WHERE key = ?1", [&key_text], |row| row.get(0))
                .optional()?;
            let total = conversation.messages().count() as u64;
            // One that has fewer messages than before is another one.
            let mut known = known.unwrap_or_default();
            if known > total {
                transaction.execute("DELETE FROM message WHERE session = ?1", [&key_text])?;
                known = 0;
            }
            let mut number = 0_u64;
            for turn in &conversation.turns {
                for message in &turn.messages {
                    number += 1;
                    let (role, text) = text_of(message);
                    if number > known && !text.is_empty() {
                        transaction.execute(
                            "INSERT INTO message (session, agent, number, at, role, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                            params![key_text, key.agent(), number, turn.ended_at_ms, role, text],
                        )?;
                    }
                }
            }
            transaction.execute(
                "INSERT INTO session VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET messages = excluded.messages",
                params![key_text, total],
            )?;
            transaction.commit()
        })
    }

    /// Says that a session has so many messages that are found elsewhere: it is a fork.
    pub(crate) fn begin_behind(&self, key: &SessionKey, messages: u64) -> Result<(), BrokerError> {
        self.work(|connection| {
            connection.execute(
                "INSERT INTO session VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING",
                params![key.to_string(), messages],
            )?;
            Ok(())
        })
    }

    /// Takes in all sessions of a home: those of before the index was made, too. Blocks.
    ///
    /// # Errors
    ///
    /// As [`MemoryIndex::capture`].
    pub fn capture_all(&self, conversations: &Conversations) -> Result<(), BrokerError> {
        let list = conversations.list().map_err(|error| BrokerError::of_conversation(&error))?;
        let mut there = Vec::new();
        for summary in list.conversations {
            let Some(key) = SessionKey::of_conversation(&summary.name) else { continue };
            let known: Option<u64> = self.work(|connection| {
                connection
                    .query_row("SELECT messages FROM session WHERE key = ?1", [key.to_string()], |row| {
                        row.get(0)
                    })
                    .optional()
            })?;
            if known != Some(summary.messages) {
                let conversation = conversations
                    .load(&summary.name)
                    .map_err(|error| BrokerError::of_conversation(&error))?;
                self.capture(&key, &conversation)?;
            }
            there.push(key.to_string());
        }
        // What was deleted is not found any more.
        self.work(|connection| {
            let gone: Vec<String> = connection
                .prepare("SELECT key FROM session")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()?
                .into_iter()
                .filter(|key| !there.contains(key))
                .collect();
            for key in gone {
                connection.execute("DELETE FROM message WHERE session = ?1", [&key])?;
                connection.execute("DELETE FROM session WHERE key = ?1", [&key])?;
            }
            Ok(())
        })
    }

    /// Finds messages that have all of the words, else some of them, best first: in the sessions of those agents that `may_read` allows.
    /// Blocks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](BrokerErrorKind::Invalid) for a question without a word; [`Failed`](BrokerErrorKind::Failed).
    pub fn query(
        &self,
        text: &str,
        at_most: usize,
        may_read: impl Fn(&str) -> bool,
    ) -> Result<Vec<MemoryHit>, BrokerError> {
        // Each word as a quoted string: nothing in it is an operator.
        let words: Vec<_> = text
            .split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(MOST_WORDS)
            .map(|word| format!("\"{word}\""))
            .collect();
        if words.is_empty() {
            return Err(BrokerError::new(
                BrokerErrorKind::Invalid,
                "there is no word to look for",
                "name some",
            ));
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
                "SELECT session, agent, number, at, role, snippet(message, 5, '', '', '…', ?2)
                 FROM message WHERE message MATCH ?1 ORDER BY rank, rowid",
            )?;
            let mut rows = statement.query(params![expression, WORDS_SHOWN])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let agent: String = row.get(1)?;
                if !may_read(&agent) {
                    continue;
                }
                let at: u64 = row.get(3)?;
                found.push(MemoryHit {
                    session: row.get(0)?,
                    message: row.get(2)?,
                    at: UNIX_EPOCH + Duration::from_millis(at),
                    role: row.get(4)?,
                    text: row.get(5)?,
                });
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
        transaction.execute_batch("DROP TABLE IF EXISTS message; DROP TABLE IF EXISTS session;")?;
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()?;
    Ok(connection)
}

fn failed(path: &Path, error: &rusqlite::Error) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Failed,
        format!("{}: {error}", path.display()),
        "the file can be removed: it is made anew from the conversations",
    )
}

/// Who said it, and what of it is text.
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
