//! Record of an agent, as the store has it.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use nexus_core::ToolAccess;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::{EnvelopeId, ReportedStatus};
use nexus_files::rfc3339;

/// Maximum number of unended messages that a record retains, and of messages in one turn.
pub(crate) const MOST_UNENDED: usize = 256;

/// Time after its last heartbeat for which a turn counts as running.
pub const HEARTBEAT_LASTS: Duration = Duration::from_secs(60);

/// An agent in its stored form: a document of kind `agent`, under its name.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentDocument {
    /// Name of the agent, as in an [`Address`](crate::Address).
    pub name: String,
    /// Type of `nexus.yaml` whose backends run the agent's turns.
    pub kind: String,
    /// Text that precedes the prompt of each turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Folder in which the agent works. `None`: it works in no folder and has only its tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Access level of the agent's turns in the folder.
    #[schemars(with = "String")]
    pub access: ToolAccess,
    /// Machine whose brokers run the agent's turns, because its folder and its sessions are there. `None`: any machine that
    /// shares the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Agent that started this one. `None` for an agent of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// Number of managers above the agent.
    #[serde(default)]
    pub depth: u32,
    /// Agents that it may write to, and workers that it may start.
    #[serde(default)]
    pub scope: AgentScope,
    /// Current status.
    pub status: AgentStatus,
    /// Task that the agent works on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Last progress that the agent reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ProgressReport>,
    /// Running turn of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<BegunTurn>,
    /// The newest 256 messages whose turn has begun and has no stored end. No second turn begins with one of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unended: Vec<EnvelopeId>,
    /// Tree of a worker. It exists until it is landed or cleaned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<WorkerTree>,
    /// Time of the last write to this record. RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub changed_at: SystemTime,
    /// Keys that this version does not know.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Agents that an agent may write to, and workers that it may start. It may always write to its manager and its
/// workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentScope {
    /// Names of further agents that it may write to. A `*` at the end matches any rest.
    pub may_write_to: Vec<String>,
    /// Names of further agents whose sessions it may search, in addition to its own and those of its workers. A `*` at the
    /// end matches any rest.
    pub may_search: Vec<String>,
    /// Maximum number of workers at a time. 0, the default, allows none.
    pub max_workers: u32,
    /// Maximum depth of workers below it. 1 lets it have workers that have no workers of their own.
    pub max_depth: u32,
    /// Types of `nexus.yaml` for its workers. If empty, workers have the agent's own type.
    pub worker_kinds: Vec<String>,
}

impl AgentScope {
    /// Returns true if `may_write_to` names the receiver. The agent may write to its manager and its workers without it.
    #[must_use]
    pub fn allows(&self, name: &str) -> bool {
        matches(&self.may_write_to, name)
    }

    /// Returns true if `may_search` names the agent. The sessions of its own workers need no entry.
    #[must_use]
    pub fn allows_search(&self, name: &str) -> bool {
        matches(&self.may_search, name)
    }
}

fn matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    })
}

impl AgentDocument {
    /// Adds a message to `unended`, because a turn begins with it.
    pub(crate) fn note_unended(&mut self, id: &EnvelopeId) {
        if !self.unended.contains(id) {
            self.unended.push(id.clone());
            let over = self.unended.len().saturating_sub(MOST_UNENDED);
            self.unended.drain(..over);
        }
    }

    /// Returns true if a turn began with a message and its end is not stored.
    pub(crate) fn has_begun(&self, id: &EnvelopeId) -> bool {
        self.unended.contains(id) || self.turn.iter().flat_map(BegunTurn::messages).any(|begun| begun == id)
    }
}

/// Progress that an agent reports about its work.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReport {
    /// Reported status.
    pub status: ReportedStatus,
    /// Share of the work that is done, from 0 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    /// Details of the progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// Status of an agent.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentStatus {
    /// The agent has work, and has not begun it.
    Assigned,
    /// The agent is ready, and has no work.
    Started,
    /// A turn of the agent is running.
    Working,
    /// The agent reported that it waits for something.
    Blocked,
    /// The agent reported that its task is done.
    Done,
    /// The last turn failed, or was lost.
    Failed,
    /// The agent's manager, or a person, stopped it. It takes no further messages.
    Stopped,
}

impl AgentStatus {
    /// Returns the name of the status, as in the record.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Started => "started",
            Self::Working => "working",
            Self::Blocked => "blocked",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }
}

/// A turn that has begun. The broker stores this before the turn runs, so that a lost turn is not mistaken for a turn that
/// never began.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BegunTurn {
    /// Message that the turn handles.
    pub message_id: EnvelopeId,
    /// Further messages that the turn took.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<EnvelopeId>,
    /// Broker that runs the turn.
    pub broker: String,
    /// Start time. RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub began_at: SystemTime,
    /// Time of the last heartbeat of its broker. RFC 3339, UTC.
    #[serde(with = "rfc3339::as_millis")]
    #[schemars(with = "String")]
    pub heartbeat_at: SystemTime,
}

impl BegunTurn {
    /// Returns true if the turn's broker sent a heartbeat recently. The clocks of two machines may differ, in both
    /// directions.
    pub(crate) fn is_alive(&self, now: SystemTime) -> bool {
        let apart = now.duration_since(self.heartbeat_at).unwrap_or_else(|ahead| ahead.duration());
        apart < HEARTBEAT_LASTS
    }

    /// Returns every message of the turn.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &EnvelopeId> {
        std::iter::once(&self.message_id).chain(&self.taken)
    }
}

/// The tree of a worker.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerTree {
    /// Folder that contains the tree in `.tree`, and its files in `work`.
    pub workspace: PathBuf,
    /// Repository of the tree.
    pub project: PathBuf,
    /// Commits of the worker, newest last. Each has the one before as its parent.
    #[serde(default)]
    pub commits: Vec<String>,
    /// Refs of the repository that retain the commits, one for each commit.
    #[serde(default)]
    pub refs: Vec<String>,
    /// True if the newest commit is on the branch of the repository.
    #[serde(default)]
    pub is_landed: bool,
}
