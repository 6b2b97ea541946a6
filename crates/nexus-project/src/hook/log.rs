//! `state/tool-log.jsonl`: one line for each tool that ran.

use std::{collections::BTreeSet, fs::OpenOptions, path::Path};

use nexus_files::JsonLinesLog;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    agents::AgentTracker,
    event::{HookTool, UseOfFiles},
    path::{plain, real},
};
use crate::{
    error::ProjectError,
    file,
    folder::ProjectFolder,
    state::{AgentFilesLine, Document as _},
    time::Time,
};

/// Maximum size of the log, in bytes. Beyond it the older half is removed. Source: our own bound, about 50,000 calls.
const MOST_LOG: u64 = 16 << 20;
/// Maximum length of a line, in bytes. Source: our own bound; a call names some files.
const MOST_LINE: u64 = 4 << 20;

/// A tool that was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolLogLine {
    /// When.
    pub at: Time,
    /// The program.
    pub harness: String,
    /// The session, by the program's name for it.
    pub session: String,
    /// The agent, where it is not the session's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The tool.
    pub tool: String,
    /// The files that it changed, relative to the project.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub files_touched: BTreeSet<String>,
}

impl ToolLogLine {
    /// File name of the log.
    pub(crate) const NAME: &str = "tool-log.jsonl";
}

impl ProjectFolder {
    /// Appends a line. Several processes may do so at once.
    pub(super) fn log_tool(&self, line: &ToolLogLine) -> Result<(), ProjectError> {
        let path = self.state_path(ToolLogLine::NAME);
        let log = JsonLinesLog::at(&path, MOST_LINE);
        self.locked(|| {
            // Create the log with the default mode of new files, because other users of the project append, too. An existing
            // file is no problem.
            let _ = OpenOptions::new().append(true).create_new(true).open(&path);
            let appended = log.append(line).and_then(|bytes| match bytes > MOST_LOG {
                true => log.drop_older_half_above(MOST_LOG),
                false => Ok(()),
            });
            appended.map_err(ProjectError::at(&path))
        })
    }

    /// Removes the files that last for one cycle, except its plan and tasks: the log, the agents, and the skills. Artifacts
    /// stay: they exist nowhere else.
    pub(crate) fn end_session_files(&self) -> Result<(), ProjectError> {
        for path in self.skill_paths() {
            file::remove(&path.with_file_name(AgentTracker::NAME))?;
            file::remove(&path)?;
        }
        file::remove(&self.state_path(AgentFilesLine::NAME))?;
        file::remove(&self.state_path(ToolLogLine::NAME))
    }

    /// Returns the files that a tool changes, relative to the project. Leaves out files outside of it.
    pub(super) fn touched(&self, tool: &HookTool, working_directory: &Path) -> BTreeSet<String> {
        if tool.use_of_files != UseOfFiles::Edits {
            return BTreeSet::new();
        }
        tool.paths.iter().filter_map(|path| self.relative(path, working_directory)).collect()
    }

    /// Returns a path relative to the project, by its text or after its links are resolved. `None`: it is outside of the
    /// project.
    pub(super) fn relative(&self, path: &Path, working_directory: &Path) -> Option<String> {
        let path = plain(&working_directory.join(path));
        let inside = match path.strip_prefix(plain(self.root())) {
            Ok(inside) => inside.to_owned(),
            // The project may have another path through a link, so compare the resolved paths.
            Err(_) => real(&path)?.strip_prefix(real(self.root())?).ok()?.to_owned(),
        };
        let text = inside.to_str()?.replace('\\', "/");
        (!text.is_empty()).then_some(text)
    }
}
