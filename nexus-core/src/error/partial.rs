//! What a failed turn had produced.

use serde::{Deserialize, Serialize};

use crate::turn::{Cost, Effects, Message, Provenance, ResumeHandle, ToolCallRecord, Usage};

/// What a turn had produced before it failed.
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
    /// What it cost, where that is known.
    pub cost: Option<Cost>,
    /// What the turn may have changed.
    pub effects: Effects,
    /// How to go on, where the conversation was kept.
    pub resume: Option<ResumeHandle>,
    /// Who ran it, if anyone did.
    pub provenance: Option<Provenance>,
}
