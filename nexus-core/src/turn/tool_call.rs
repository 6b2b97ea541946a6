//! Tool calls of a turn, as its result records them.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Effects;
use crate::{id::CallId, tool::ToolContent};

/// Owner of a tool.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolOrigin {
    /// A tool of the caller, answered by the [`ToolRouter`](crate::ToolRouter).
    Caller,
    /// A tool of the vendor's harness.
    Harness,
    /// A tool of the vendor's server.
    Hosted,
}

/// Status of a tool call at its end.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallStatus {
    /// The call had not ended when the turn ended.
    Unfinished,
    /// The call succeeded.
    Succeeded,
    /// The call failed, and the model received the error.
    Failed,
    /// The call was denied, and the model received the reason. The tool did not run.
    Denied,
}

/// One tool call of a turn, as far as the vendor shows it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallRecord {
    /// Id of the call.
    pub call: CallId,
    /// Tool call that started the sub-agent which made this call. `None` for the turn's own agent.
    pub parent: Option<CallId>,
    /// The tool's name.
    pub name: String,
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// The arguments, as far as the vendor shows them.
    pub arguments: Option<Value>,
    /// Status of the call at its end.
    pub status: ToolCallStatus,
    /// Output of the call, as far as the vendor shows it.
    pub output: Vec<ToolContent>,
    /// Possible effects of the call.
    pub effects: Effects,
    /// True for a call of a failed attempt whose changes were reverted before another backend took over. The
    /// effects of such a call do not count for the turn.
    #[serde(default)]
    pub is_undone: bool,
}
