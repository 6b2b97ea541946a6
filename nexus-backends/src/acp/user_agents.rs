//! The user's own agents: one file each, `agents/NAME.json` in the home of Nexus.
//!
//! A file has a row of the shape of Nexus's own table, the last judgement of the agent, or both. A row adds an agent or replaces that
//! of the same name. A file that cannot be read affects its own agent alone.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_core::SettingsError;
use nexus_files::{FileFault, create_once, read_bounded, replace, text_of};
use serde_json::{Map, Value};

use super::judgement::AgentJudgement;
use super::listed::ListedAgent;

/// Folder of the files, below the home.
const FOLDER: &str = "agents";
/// End of a file's name.
const EXTENSION: &str = ".json";
/// Largest file, in bytes. Source: our own bound, far above the longest row.
const MAX_BYTES: u64 = 256 << 10;
/// Longest name of an agent, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Key of the judgement. All others are those of the row.
const JUDGED: &str = "judged";

/// The files of the user's agents.
#[derive(Clone, Debug)]
pub struct AgentFiles {
    folder: PathBuf,
}

/// Content of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct UserAgent {
    /// The row. `None` if the file has only a judgement of an agent of Nexus.
    pub(super) row: Option<Arc<ListedAgent>>,
    pub(super) judged: Option<AgentJudgement>,
}

/// A file of an agent that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentFileError {
    /// The file.
    pub file: PathBuf,
    /// Name of the agent.
    pub agent: String,
    /// Key of the row, such as `with_server.variables`. Empty for the file as a whole.
    pub key: String,
    /// The fault, and a correct value.
    pub reason: String,
}

impl AgentFiles {
    /// Names the files in a home of Nexus. Reads nothing yet.
    #[must_use]
    pub fn in_home(home: &Path) -> Self {
        Self { folder: home.join(FOLDER) }
    }

    /// Returns the path of an agent's file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{EXTENSION}"))
    }

    /// Returns true if an agent can have this name.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        // The name becomes part of a path, so it must not contain a separator or begin with a dot.
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        name.len() <= MAX_NAME_BYTES
            && name.bytes().all(fits)
            && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
    }

    /// Writes the row of an agent. Returns `false`, and writes nothing, if it has a row and `is_replacing` is false. An earlier
    /// judgement is removed, because it was of another row.
    ///
    /// # Errors
    ///
    /// The row cannot be used, or the file cannot be written.
    pub fn write_row(
        &self,
        name: &str,
        row: &Map<String, Value>,
        is_replacing: bool,
    ) -> Result<bool, AgentFileError> {
        // Check the row as a later start reads it, so that no unusable file is written.
        self.row(name, row)?;
        let bytes = self.text_of_file(name, row)?;
        if is_replacing {
            return self.replaced(name, &bytes).map(|()| true);
        }
        let is_created =
            // A check before the write could overwrite a file that appears in between.
            create_once(&self.path(name), &bytes).map_err(|error| self.unwritten(name, &error))?;
        if is_created {
            return Ok(true);
        }
        // A file with a judgement alone has no row to lose.
        match self.content(name)?.unwrap_or_default().keys().all(|key| key == JUDGED) {
            true => self.replaced(name, &bytes).map(|()| true),
            false => Ok(false),
        }
    }

    /// Records a judgement of an agent. Its row stays.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub fn record(&self, name: &str, judgement: &AgentJudgement) -> Result<(), AgentFileError> {
        let mut content = self.content(name)?.unwrap_or_default();
        let judged =
            serde_json::to_value(judgement).map_err(|error| self.fault(name, JUDGED, error.to_string()))?;
        content.insert(JUDGED.to_owned(), judged);
        let bytes = self.text_of_file(name, &content)?;
        self.replaced(name, &bytes)
    }

    /// Returns the names of the agents that have a file.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(EXTENSION)?.to_owned();
            Self::is_name(&name).then_some(name)
        });
        let mut names: Vec<_> = names.collect();
        // The file system returns the entries of a folder in any order.
        names.sort();
        names
    }

    /// Reads the row of an agent, whatever its judgement is. Returns `None` if there is none.
    pub(super) fn read_row(&self, name: &str) -> Result<Option<Arc<ListedAgent>>, AgentFileError> {
        if !Self::is_name(name) {
            return Ok(None);
        }
        let Some(mut content) = self.content(name)? else { return Ok(None) };
        content.remove(JUDGED);
        match content.is_empty() {
            true => Ok(None),
            false => Ok(Some(Arc::new(self.row(name, &content)?))),
        }
    }

    /// Reads all files: the agents by name, and the faults of the others.
    pub(super) fn read_all(&self) -> (BTreeMap<String, UserAgent>, Vec<AgentFileError>) {
        let (mut agents, mut faults) = (BTreeMap::new(), Vec::new());
        for name in self.names() {
            match self.read(&name) {
                Ok(agent) => agents.extend(agent.map(|agent| (name, agent))),
                Err(fault) => faults.push(fault),
            }
        }
        (agents, faults)
    }

    /// Reads the file of an agent. Returns `None` if there is none.
    fn read(&self, name: &str) -> Result<Option<UserAgent>, AgentFileError> {
        let row = self.read_row(name)?;
        let judged = self.content(name)?.and_then(|mut content| content.remove(JUDGED)).map(|judged| {
            SettingsError::reading(&judged).map_err(|error| {
                let key = [JUDGED.to_owned()].into_iter().chain(error.path).collect::<Vec<_>>().join(".");
                self.fault(name, &key, error.reason)
            })
        });
        let judged = judged.transpose()?;
        Ok((row.is_some() || judged.is_some()).then_some(UserAgent { row, judged }))
    }

    fn row(&self, name: &str, content: &Map<String, Value>) -> Result<ListedAgent, AgentFileError> {
        if !Self::is_name(name) {
            let reason = "the name of an agent has at most 64 letters, digits, `-`, `_` and `.`";
            return Err(self.fault(name, "", reason));
        }
        let in_row = |error: SettingsError| self.fault(name, &error.path.join("."), error.reason);
        let row: ListedAgent = SettingsError::reading(&Value::Object(content.clone())).map_err(in_row)?;
        row.check_row().map_err(in_row)?;
        Ok(row.named(name.to_owned()))
    }

    fn content(&self, name: &str) -> Result<Option<Map<String, Value>>, AgentFileError> {
        let bytes = read_bounded(&self.path(name), MAX_BYTES)
            .map_err(|error| self.fault(name, "", format!("it cannot be read: {error}")))?;
        let Some(bytes) = bytes else { return Ok(None) };
        let text = text_of(bytes).map_err(|error| self.fault(name, "", error.to_string()))?;
        let content = serde_json::from_str(&text)
            .map_err(|error| self.fault(name, "", format!("it must be an object of JSON: {error}")))?;
        Ok(Some(content))
    }

    /// Encodes the content of a file. A file over the bound could not be read again.
    fn text_of_file(&self, name: &str, content: &Map<String, Value>) -> Result<Vec<u8>, AgentFileError> {
        let text = format!("{:#}\n", Value::Object(content.clone())).into_bytes();
        match u64::try_from(text.len()).is_ok_and(|bytes| bytes <= MAX_BYTES) {
            true => Ok(text),
            false => Err(self.fault(
                name,
                "",
                format!("it must have at most {MAX_BYTES} bytes, and has {}", text.len()),
            )),
        }
    }

    fn replaced(&self, name: &str, bytes: &[u8]) -> Result<(), AgentFileError> {
        replace(&self.path(name), bytes).map_err(|error| self.unwritten(name, &error))
    }

    fn unwritten(&self, name: &str, error: &io::Error) -> AgentFileError {
        let advice = FileFault::of(error).explanation();
        self.fault(name, "", format!("it cannot be written: {error}: {advice}"))
    }

    fn fault(&self, name: &str, key: &str, reason: impl Into<String>) -> AgentFileError {
        AgentFileError {
            file: self.path(name),
            agent: name.to_owned(),
            key: key.to_owned(),
            reason: reason.into(),
        }
    }
}

impl AgentFileError {
    /// The file of an agent that is none of Nexus's, without a program.
    pub(super) fn no_program(home: &Path, name: &str) -> Self {
        AgentFiles::in_home(home).fault(
            name,
            "program",
            "is missing: write the program that starts the agent",
        )
    }
}

impl fmt::Display for AgentFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, agent, key, reason } = self;
        match key.is_empty() {
            true => write!(f, "{}: agent {agent:?}: {reason}", file.display()),
            false => write!(f, "{}: agent {agent:?}: {key}: {reason}", file.display()),
        }
    }
}

impl std::error::Error for AgentFileError {}

#[cfg(test)]
mod tests;
