//! Partial result of a failed turn.

use serde::{Deserialize, Serialize};

use crate::turn::{Cost, Effects, Message, Provenance, ResumeHandle, ToolCallRecord, Usage};

/// Output of a turn before it failed.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Partial {
    /// The text of every message of the turn's own agent that was not voided, joined by a blank line.
    pub text: String,
    /// Every message that was not voided.
    pub messages: Vec<Message>,
    /// Every tool call, in the order in which they began.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Tokens used, as far as reported.
    pub usage: Usage,
    /// Its cost, if it is known.
    pub cost: Option<Cost>,
    /// Possible effects of the turn.
    pub effects: Effects,
    /// Handle for resuming, if the conversation was stored.
    pub resume: Option<ResumeHandle>,
    /// Backend that ran it, if any did.
    pub provenance: Option<Provenance>,
}
