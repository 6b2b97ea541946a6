//! The tool calls of a turn, as its result keeps them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Effects;
use crate::{id::CallId, tool::ToolContent};

/// Owner of a tool.
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

/// End of a tool call.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// It had not ended when the turn did.
    Unfinished,
    /// It went well.
    Succeeded,
    /// It failed, and the model got the error.
    Failed,
    /// It was denied, and the model got the reason. The tool did not run.
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
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// The arguments, as far as the vendor shows them.
    pub arguments: Option<Value>,
    /// Its end.
    pub status: ToolCallStatus,
    /// Its output, as far as the vendor shows it.
    pub output: Vec<ToolContent>,
    /// Its possible effects.
    pub effects: Effects,
    /// True for a call of a failed attempt whose changes were reverted before another backend took the turn
    /// over. Its effects do not count for the turn.
    #[serde(default)]
    pub is_undone: bool,
}
