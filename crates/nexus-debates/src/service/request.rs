//! Arguments of the calls. Models read the documentation of their fields.

use std::{collections::BTreeMap, path::PathBuf};

use nexus_work::WorkBudget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sources::SourceDraft;

/// Creates a debate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateCreateRequest {
    /// The question, so that a reader without any other knowledge understands it. At most 16 KiB.
    pub question: String,
    /// Your knowledge of it that the agents cannot find out by themselves. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Texts and files that panelists may read, at most 32. One panelist at most reads each: give several, so
    /// that panelists know different things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceDraft>,
    /// Panelists that must sit: names of registered agents, or names that panelists should have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// Number of panelists, 2 to 9. The configuration has the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panelists: Option<usize>,
    /// Lowest number of rounds of cross-examination, from 1 on. The configuration has the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rounds: Option<u32>,
    /// Highest number of rounds, up to 12. The configuration has the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Budget of all turns of the debate together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
    /// The workspace that this debate is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_workspace_id: Option<String>,
    /// Names and values by which you find it again. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Runs the next stage of a debate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateAdvanceRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// Longest wait in seconds: 45 by default, 50 at most. If the stage still runs then, call again: that joins
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Asks where a debate is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateStatusRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// Longest wait while a stage runs, in seconds: 45 by default, 50 at most, 0 for no wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Requests the present or final result of a debate. Changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateResultRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// Offset of the page of its record: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Asks for debates, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateListRequest {
    /// Only those with this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only those with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Offset of the page: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Ends a debate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateCancelRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
}

/// Removes a debate that ended, with all its records. Tasks that follow from it remain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateRemoveRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
}

/// Creates a task that follows from a debate, and links the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateSpawnTaskRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// The goal, and how a reader can see that it is reached. At most 16 KiB.
    pub goal: String,
    /// The absolute path of the project: the top of a git repository, or a folder that is in none.
    pub project: PathBuf,
    /// Your knowledge of it in addition to the debate's result, which is added. At most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}
