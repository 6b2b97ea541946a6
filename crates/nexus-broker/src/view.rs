//! Views of a broker for people: the messages as a log, the agents and their tasks as tables. They are output only; no
//! program reads its state from them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use nexus_files::FileLock;

use crate::{
    agent::AgentDocument,
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    store::{LoggedEnvelope, LoggedEvent},
};
use nexus_files::rfc3339;

/// The file with a line for each message.
const MESSAGES: &str = "AGENT_COMMUNICATIONS.log";
/// The file with the agents.
const AGENTS: &str = "ACTIVE_AGENTS.md";
/// The file with their tasks.
const TASKS: &str = "TASKS.md";
/// Number of messages that are read at a time.
const PAGE: usize = 500;
/// The longest summary, in characters.
const MAX_SUMMARY: usize = 120;

/// First line of the tables: a file that begins otherwise belongs to a person.
const MARK: &str = "<!-- Written by `nexus broker run`, which writes over changes. -->\n";
/// Number of bytes of a file that are read to find out who wrote it.
const BEGINNING: u64 = 4 << 10;

/// The views of one folder. A broker creates them when it begins, or continues existing ones. One of several brokers writes
/// them; when it has ended, another continues. A file that no broker wrote is never overwritten.
#[derive(Debug)]
pub struct Views {
    folder: PathBuf,
    writer: Option<Writer>,
}

/// The locked log. The owner of the lock writes all views of the folder.
#[derive(Debug)]
struct Writer {
    log: FileLock,
    /// Number of the last log entry that the file contains.
    shown: u64,
}

impl Views {
    /// Begins the views in a folder, and creates the folder.
    ///
    /// # Errors
    ///
    /// [`Conflict`](BrokerErrorKind::Conflict) for a file that no broker wrote, [`Failed`](BrokerErrorKind::Failed) if the
    /// folder cannot be written to.
    pub fn begin(folder: impl Into<PathBuf>) -> Result<Self, BrokerError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(BrokerError::at(&folder))?;
        for name in [MESSAGES, AGENTS, TASKS] {
            refuse_foreign(&folder.join(name))?;
        }
        let writer = Writer::begin(&folder.join(MESSAGES))?;
        Ok(Self { folder, writer })
    }

    /// Returns true if this broker writes these views. Otherwise another broker writes them.
    #[must_use]
    pub fn is_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// Updates the views from the store, unless another broker writes them.
    ///
    /// # Errors
    ///
    /// Errors of the store, and of [`begin`](Self::begin).
    pub async fn refresh(&mut self, broker: &Broker) -> Result<(), BrokerError> {
        let log = self.folder.join(MESSAGES);
        // The log was moved or removed: give up its lock.
        self.writer.take_if(|writer| !writer.log.is_current());
        if self.writer.is_none() {
            self.writer = Writer::begin(&log)?;
        }
        let Some(writer) = &mut self.writer else { return Ok(()) };
        loop {
            let page = broker.store().log(writer.shown, PAGE).await?;
            let Some(last) = page.last() else { break };
            let lines: String = page.iter().map(|logged| line(logged) + "\n").collect();
            writer.append(lines.as_bytes()).map_err(BrokerError::at(&log))?;
            writer.shown = last.number;
        }
        let agents = broker.agents().await?;
        self.replace(AGENTS, &agents_table(&agents))?;
        self.replace(TASKS, &tasks_table(&agents))
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), BrokerError> {
        let path = self.folder.join(name);
        refuse_foreign(&path)?;
        let text = format!("{MARK}{text}");
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let replaced = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        });
        replaced.map_err(BrokerError::at(&path))
    }
}

impl Writer {
    /// Opens and locks the log. Returns `None` if another broker writes it.
    fn begin(path: &Path) -> Result<Option<Self>, BrokerError> {
        refuse_foreign(path)?;
        let log = nexus_files::open_regular(path, OpenOptions::new().append(true).create(true))
            .and_then(|log| FileLock::try_lock_open(path, log))
            .map_err(BrokerError::at(path))?;
        let Some(log) = log else { return Ok(None) };
        refuse_foreign(path)?;
        log.file().set_len(0).map_err(BrokerError::at(path))?;
        Ok(Some(Self { log, shown: 0 }))
    }

    /// Appends all lines, or none.
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut log = self.log.file();
        let before = log.metadata()?.len();
        log.write_all(lines).inspect_err(|_| drop(log.set_len(before)))
    }
}

/// Fails for a file that no broker wrote. An empty file may be overwritten.
fn refuse_foreign(path: &Path) -> Result<(), BrokerError> {
    let is_ours = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(BrokerError::unusable(path, &error)),
        // A link may lead to a file of a person, and opening a pipe would block.
        Ok(found) if !found.is_file() => false,
        Ok(_) => {
            let mut beginning = Vec::new();
            File::open(path)
                .and_then(|file| file.take(BEGINNING).read_to_end(&mut beginning))
                .map_err(BrokerError::at(path))?;
            let beginning = String::from_utf8_lossy(&beginning);
            let first = beginning.lines().next().unwrap_or_default();
            beginning.is_empty() || beginning.starts_with(MARK) || is_line(first)
        }
    };
    if is_ours {
        return Ok(());
    }
    Err(BrokerError::new(
        BrokerErrorKind::Conflict,
        format!("{} was not written by a broker, and was not changed", path.display()),
        "move it away, or write the views to another folder (`nexus broker run --views FOLDER`)",
    ))
}

/// Returns true if a text has the form of [`line()`].
fn is_line(text: &str) -> bool {
    text.strip_prefix('[')
        .and_then(|rest| rest.split_once("] ["))
        .is_some_and(|(time, rest)| rfc3339::parse(time).is_some() && rest.contains("] -> ["))
}

/// Returns a message as a line: `[time] [source] -> [target] [type]: summary`.
#[must_use]
pub fn line(logged: &LoggedEnvelope) -> String {
    let envelope = &logged.envelope;
    let expired = match logged.event {
        LoggedEvent::Expired => "expired: ",
        _ => "",
    };
    format!(
        "[{}] [{}] -> [{}] [{}]: {expired}{}",
        rfc3339::millis(envelope.timestamp),
        envelope.source_agent_id,
        envelope.target_agent_id,
        envelope.payload.type_name(),
        summary(&envelope.payload.text())
    )
}

/// Returns the first words of a text, on one line.
fn summary(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        // Remove characters that move a cursor or change the direction of writing.
        let is_shown = |letter: &char| {
            !letter.is_control() && !matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        };
        words.extend(word.chars().filter(is_shown));
        if words.chars().count() > MAX_SUMMARY {
            break;
        }
    }
    match words.char_indices().nth(MAX_SUMMARY) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

fn agents_table(agents: &[AgentDocument]) -> String {
    let mut text = String::from(
        "# Agents\n\n| agent | type | manager | status | since | folder |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for agent in agents {
        let folder = agent.folder.as_ref().map_or_else(String::new, |folder| folder.display().to_string());
        text.push_str(&format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            agent.name,
            cell(&agent.kind),
            agent.manager.as_deref().unwrap_or_default(),
            agent.status.as_str(),
            rfc3339::millis(agent.changed_at),
            cell(&folder)
        ));
    }
    text
}

fn tasks_table(agents: &[AgentDocument]) -> String {
    let mut text = String::from(
        "# Tasks\n\n| task | agent | status | kept as | landed |\n| --- | --- | --- | --- | --- |\n",
    );
    for agent in agents {
        let Some(task) = &agent.task_id else { continue };
        let (kept, landed) = agent.tree.as_ref().map_or(("", ""), |tree| {
            (tree.refs.last().map_or("", String::as_str), if tree.is_landed { "yes" } else { "no" })
        });
        text.push_str(&format!(
            "| {} | {} | {} | {} | {landed} |\n",
            cell(task),
            agent.name,
            agent.status.as_str(),
            cell(kept)
        ));
    }
    text
}

/// Escapes a text, so that it ends neither its cell nor its row.
fn cell(text: &str) -> String {
    summary(text).replace('\\', "\\\\").replace('|', "\\|")
}
