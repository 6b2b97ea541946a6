//! What people read of a broker: the messages as a log, the agents and their tasks as tables. Never read as truth.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use crate::{
    agent::AgentDocument,
    broker::Broker,
    error::{BrokerError, BrokerErrorKind},
    rfc3339,
    store::{LoggedEnvelope, LoggedEvent},
};

/// The file with a line for each message.
const MESSAGES: &str = "AGENT_COMMUNICATIONS.log";
/// The file with the agents.
const AGENTS: &str = "ACTIVE_AGENTS.md";
/// The file with their tasks.
const TASKS: &str = "TASKS.md";
/// How many messages are read at a time.
const PAGE: usize = 500;
/// The longest summary, in characters.
const MAX_SUMMARY: usize = 120;

/// The views of one folder. They are made anew when a broker begins, and continued.
#[derive(Debug)]
pub struct Views {
    folder: PathBuf,
    shown: u64,
}

impl Views {
    /// Views in a folder, which is made.
    ///
    /// # Errors
    ///
    /// [`Failed`](BrokerErrorKind::Failed) if the folder cannot be written to.
    pub fn begin(folder: impl Into<PathBuf>) -> Result<Self, BrokerError> {
        let folder = folder.into();
        fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
        let log = folder.join(MESSAGES);
        fs::write(&log, "").map_err(|error| at(&log, &error))?;
        Ok(Self { folder, shown: 0 })
    }

    /// Brings them up to what the store has.
    ///
    /// # Errors
    ///
    /// Those of the store, and [`Failed`](BrokerErrorKind::Failed) for files.
    pub async fn refresh(&mut self, broker: &Broker) -> Result<(), BrokerError> {
        loop {
            let page = broker.store().log(self.shown, PAGE).await?;
            let Some(last) = page.last() else { break };
            let lines: String = page.iter().map(|logged| line(logged) + "\n").collect();
            let log = self.folder.join(MESSAGES);
            let written = OpenOptions::new()
                .append(true)
                .create(true)
                .open(&log)
                .and_then(|mut file| file.write_all(lines.as_bytes()));
            written.map_err(|error| at(&log, &error))?;
            self.shown = last.number;
        }
        let agents = broker.agents().await?;
        self.replace(AGENTS, &agents_table(&agents))?;
        self.replace(TASKS, &tasks_table(&agents))
    }

    fn replace(&self, name: &str, text: &str) -> Result<(), BrokerError> {
        let path = self.folder.join(name);
        if fs::read_to_string(&path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        let replaced = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.persist(&path).map(drop).map_err(|error| error.error)
        });
        replaced.map_err(|error| at(&path, &error))
    }
}

fn at(path: &Path, error: &io::Error) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Failed, format!("{}: {error}", path.display()), "")
}

/// A message as a line: `[time] [source] -> [target] [type]: summary`.
#[must_use]
pub fn line(logged: &LoggedEnvelope) -> String {
    let envelope = &logged.envelope;
    let expired = match logged.event {
        LoggedEvent::Expired => "expired: ",
        _ => "",
    };
    format!(
        "[{}] [{}] -> [{}] [{}]: {expired}{}",
        rfc3339::text(envelope.timestamp),
        envelope.source_agent_id,
        envelope.target_agent_id,
        envelope.payload.type_name(),
        summary(&envelope.payload.text())
    )
}

/// The first words of a text, on one line.
fn summary(text: &str) -> String {
    let mut words = String::new();
    for word in text.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        // Nothing that moves a cursor or turns the direction of writing.
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
            rfc3339::text(agent.changed_at),
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

/// A text that ends neither its cell nor its row.
fn cell(text: &str) -> String {
    summary(text).replace('\\', "\\\\").replace('|', "\\|")
}
