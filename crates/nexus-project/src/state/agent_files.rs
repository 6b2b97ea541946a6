//! `state/agent-files.jsonl`: the files that agents changed, until the tasks have them.
//!
//! A hook only appends a line, so its cost does not depend on the number of tasks, agents and files. The next reader of the tasks adds the
//! files of each agent that ended to its task, and the next writer removes these lines.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, OpenOptions},
    io,
};

use nexus_files::JsonLinesLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tasks::{ProjectTaskStatus, ProjectTasks};
use crate::{error::ProjectError, file, folder::ProjectFolder};

/// Size of the file from which a hook adds the files to the tasks itself, in bytes. Source: our own bound, about 10,000 edits.
const MOST_UNSETTLED: u64 = 1 << 20;
/// Maximum length of a line, in bytes. Source: that of a line of the log of tools, which has the same files.
const MOST_LINE: u64 = 4 << 20;
/// Maximum size of the file that is read, in bytes. Source: our own bound, above [`MOST_UNSETTLED`] and a line.
const MOST_READ: u64 = 8 << 20;
/// Suffix of the name of a log that could not be read.
const UNREADABLE: &str = ".unreadable";

/// Files that an agent changed, or its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentFilesLine {
    /// The program.
    pub(crate) harness: String,
    /// The agent.
    pub(crate) agent: String,
    /// The files that it changed, relative to the project.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) files: BTreeSet<String>,
    /// True if the agent ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_ended: bool,
}

impl AgentFilesLine {
    /// File name of the log.
    pub(crate) const NAME: &str = "agent-files.jsonl";
}

impl ProjectFolder {
    /// Appends a line. Several processes may do so at once.
    pub(crate) fn note_agent_files(&self, line: &AgentFilesLine) -> Result<(), ProjectError> {
        let log = self.agent_files();
        self.locked(|| {
            self.move_unreadable_agent_files()?;
            // Create the log with the default mode of new files, because other users of the project append, too. An existing
            // file is no problem.
            let _ = OpenOptions::new().append(true).create_new(true).open(log.path());
            let bytes = log.append(line).map_err(ProjectError::at(log.path()))?;
            match bytes > MOST_UNSETTLED {
                true => self.settle_agent_files(),
                false => Ok(()),
            }
        })
    }

    /// Adds the files of each agent that ended to its task in `tasks`: the one that is in progress and names the agent.
    pub(crate) fn add_agent_files(&self, tasks: &mut ProjectTasks) {
        for AgentFilesLine { agent, files, .. } in self.read_agent_files().ended {
            let own = tasks.tasks.iter_mut().find(|task| {
                task.agent.as_ref() == Some(&agent) && task.status == ProjectTaskStatus::InProgress
            });
            own.into_iter().for_each(|task| task.files_touched.extend(files.iter().cloned()));
        }
    }

    /// Removes the lines of agents that ended. The tasks have their files. The caller has the lock.
    pub(crate) fn forget_ended_agents(&self) -> Result<(), ProjectError> {
        let found = self.read_agent_files();
        match found.ended.is_empty() {
            true => Ok(()),
            false => self.write_agent_files(found.running),
        }
    }

    /// Moves the files of agents that ended to the tasks, and limits those of all others. The caller has the lock.
    fn settle_agent_files(&self) -> Result<(), ProjectError> {
        // `tasks` adds the files of ended agents, so writing them back settles the log.
        if let Some(tasks) = self.tasks()? {
            self.write_tasks(&tasks)?;
        }
        let mut running = self.read_agent_files().running;
        // Agents that never end must not make each further line expensive.
        let mut bytes: u64 = running.iter().map(AgentFilesLine::bytes).sum();
        running.retain(|line| {
            let is_retained = bytes <= MOST_UNSETTLED / 2;
            if !is_retained {
                bytes -= line.bytes();
            }
            is_retained
        });
        self.write_agent_files(running)
    }

    fn write_agent_files(&self, lines: Vec<AgentFilesLine>) -> Result<(), ProjectError> {
        let log = self.agent_files();
        let mut text = Vec::new();
        for line in lines {
            serde_json::to_writer(&mut text, &line)
                .map_err(|error| ProjectError::damaged(log.path(), error))?;
            text.push(b'\n');
        }
        match text.is_empty() {
            true => file::remove(log.path()),
            false => file::replace(log.path(), &text),
        }
    }

    /// Reads the log. One that cannot be read counts as empty, because a repository may contain it, and the tasks do not depend on it.
    fn read_agent_files(&self) -> LoggedAgentFiles {
        self.readable_agent_files().unwrap_or_else(|error| {
            tracing::warn!(%error, "the files that agents changed are not added to their tasks");
            LoggedAgentFiles::default()
        })
    }

    fn readable_agent_files(&self) -> Result<LoggedAgentFiles, ProjectError> {
        let log = self.agent_files();
        if let Ok(found) = fs::symlink_metadata(log.path())
            && found.len() > MOST_READ
        {
            let reason = format!("it has {} bytes, more than {MOST_READ}", found.len());
            return Err(ProjectError::damaged(log.path(), reason));
        }
        let lines = log.read().map_err(ProjectError::at(log.path()))?;
        Ok(LoggedAgentFiles::of(lines.values.into_iter().map(|(_, line)| line)))
    }

    /// Renames a log that cannot be read, so that the next line begins a new one. The caller has the lock.
    fn move_unreadable_agent_files(&self) -> Result<(), ProjectError> {
        let path = self.state_path(AgentFilesLine::NAME);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Only a longer file may have a line that is too long.
            Ok(found) if found.is_file() && found.len() <= MOST_UNSETTLED => return Ok(()),
            _ => {}
        }
        let Err(error) = self.readable_agent_files() else { return Ok(()) };
        let aside = self.state_path(&format!("{}{UNREADABLE}", AgentFilesLine::NAME));
        tracing::warn!(%error, ?aside, "the log of the files of agents is renamed, and a new one begins");
        // A file takes the place of an earlier one. A folder cannot, and a file cannot take that of a folder.
        let _ = fs::remove_file(&aside);
        fs::rename(&path, &aside).map_err(ProjectError::at(&path))
    }

    fn agent_files(&self) -> JsonLinesLog<AgentFilesLine> {
        JsonLinesLog::at(self.state_path(AgentFilesLine::NAME), MOST_LINE)
    }
}

/// Content of the log: a line for each agent, with all of its files.
#[derive(Debug, Default)]
struct LoggedAgentFiles {
    /// Agents that ended, in the order of their ends.
    ended: Vec<AgentFilesLine>,
    /// Agents that did not end, in the order of their last edits.
    running: Vec<AgentFilesLine>,
}

impl LoggedAgentFiles {
    fn of(lines: impl Iterator<Item = AgentFilesLine>) -> Self {
        let mut ended = Vec::new();
        let mut running: BTreeMap<(String, String), (usize, BTreeSet<String>)> = BTreeMap::new();
        for (number, line) in lines.enumerate() {
            let key = (line.harness, line.agent);
            if line.has_ended {
                let mut files = running.remove(&key).unwrap_or_default().1;
                files.extend(line.files);
                let (harness, agent) = key;
                ended.push(AgentFilesLine { harness, agent, files, has_ended: true });
            } else {
                let known = running.entry(key).or_default();
                known.0 = number;
                known.1.extend(line.files);
            }
        }
        let mut running: Vec<_> = running.into_iter().collect();
        // Order by the last edit, so that `settle_agent_files` drops the agents that were idle longest.
        running.sort_by_key(|(_, (number, _))| *number);
        let running = running.into_iter().map(|((harness, agent), (_, files))| AgentFilesLine {
            harness,
            agent,
            files,
            has_ended: false,
        });
        Self { ended, running: running.collect() }
    }
}

impl AgentFilesLine {
    /// Returns the size of the line, without quotes and escapes.
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.len() as u64).sum()
    }
}
