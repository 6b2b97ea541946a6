//! Partial result of a failed turn.

use serde::{Deserialize, Serialize};

use crate::turn::{Cost, Effects, Message, Provenance, ResumeHandle, ToolCallRecord, Usage};

/// Output of a turn before it failed.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// Text of all messages of the turn's own agent that were not voided, joined by blank lines.
    pub text: String,
    /// All messages that were not voided.
    pub messages: Vec<Message>,
    /// All tool calls, in the order in which they began.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens used, as far as the vendor reported them.
    pub usage: Usage,
    /// Cost of the turn, if it is known.
    pub cost: Option<Cost>,
    /// Possible effects of the turn.
    pub effects: Effects,
    /// Resume handle, if the conversation was stored.
    pub resume: Option<ResumeHandle>,
    /// Backend that ran the turn, if one did.
    pub provenance: Option<Provenance>,
}
