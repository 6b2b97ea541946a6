//! What each call takes. The documentation of a field is what a model reads of it.

use std::{collections::BTreeMap, path::PathBuf};

use nexus_work::WorkBudget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::sources::SourceDraft;

/// Creates a debate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateCreateRequest {
    /// What is debated, so that somebody who has read nothing else understands it. At most 16 KiB.
    pub question: String,
    /// What you know about it that the agents cannot find out by themselves. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// What panelists may read, at most 32. Each goes to one panelist at most: give several, so that they know different things.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceDraft>,
    /// Who has to sit: names of registered agents, or names that panelists are to have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pins: Vec<String>,
    /// How many panelists there are, 2 to 9. By default as the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub panelists: Option<usize>,
    /// How many rounds of cross-examination are held at least, from 1 on. By default as the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rounds: Option<u32>,
    /// How many rounds are held at most, up to 12. By default as the configuration says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// What all turns of the debate together may use.
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
    /// How long to wait, in seconds: 45 by default, 50 at most. If the stage still runs then, call again: that joins it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Asks where a debate is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateStatusRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// How long to wait while a stage runs, in seconds: 45 by default, 50 at most, 0 not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Asks what a debate has come to. Changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateResultRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// Where the page of its record begins: `next_offset` of the page before.
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
    /// Where the page begins: `next_offset` of the page before.
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

/// Creates a task that follows from a debate, and links the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DebateSpawnTaskRequest {
    /// The debate, as `debate_create` named it.
    pub debate_id: String,
    /// What is to be reached, and how anybody can see that it is. At most 16 KiB.
    pub goal: String,
    /// The absolute path of the project: the top of a git repository, or a folder that is in none.
    pub project: PathBuf,
    /// What you know about it beside what the debate came to, which is added. At most 32 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
}
