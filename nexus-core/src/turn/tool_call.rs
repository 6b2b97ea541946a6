//! The tool calls of a turn, as its result keeps them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Effects;
use crate::{id::CallId, tool::ToolContent};

/// Whose tool it is.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// The caller's, answered by the [`ToolRouter`](crate::ToolRouter).
    Caller,
    /// The vendor's harness's own.
    Harness,
    /// The vendor's server's own.
    Hosted,
}

/// How a tool call ended.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// It had not ended when the turn did.
    Unfinished,
    /// It went well.
    Succeeded,
    /// It failed, and the model was told.
    Failed,
    /// It was not let through, and the model was told. The tool was not asked.
    Denied,
}

/// One tool call of a turn, as far as the vendor shows it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    /// The call.
    pub call: CallId,
    /// The call of the sub-agent that called; `None` is the turn's own agent.
    pub parent: Option<CallId>,
    /// The tool's name.
    pub name: String,
    /// Whose tool it is.
    pub origin: ToolOrigin,
    /// The arguments, as far as the vendor shows them.
    pub arguments: Option<Value>,
    /// How it ended.
    pub status: ToolCallStatus,
    /// What came back, as far as the vendor shows it.
    pub output: Vec<ToolContent>,
    /// What it may have changed.
    pub effects: Effects,
    /// Whether it is one of a failed attempt whose changes were put back before another backend took the turn over. Its
    /// effects are none of the turn's.
    #[serde(default)]
    pub is_undone: bool,
}
