//! A conversation as data that belongs to no vendor.

use nexus_core::{BackendId, ErrorKind, ModelId, PromptBlock, ToolCallStatus, turn::ToolOrigin};
use serde::{Deserialize, Serialize};

use crate::not_carried::NotCarried;

/// A conversation: its turns, oldest first. Messages are counted from 1 over all turns.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The turns.
    pub turns: Vec<ConversationTurn>,
}

impl Conversation {
    /// The messages of all turns, in order.
    pub fn messages(&self) -> impl Iterator<Item = &ConversationMessage> {
        self.turns.iter().flat_map(|turn| &turn.messages)
    }
}

/// One turn of a conversation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationTurn {
    /// When it ended, in milliseconds since 1970-01-01 00:00 UTC.
    pub ended_at_ms: u64,
    /// Who ran it. For people; never shown to an agent.
    pub backend: Option<BackendId>,
    /// The model, as the vendor named it, else as it was asked for.
    pub model: Option<ModelId>,
    /// Why it failed, if it did. Its messages are then those that were there by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ErrorKind>,
    /// Whether its model was not shown the turns before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_afresh: bool,
    /// What was said and called, in order.
    pub messages: Vec<ConversationMessage>,
    /// What of the turn was not stored.
    #[serde(default, skip_serializing_if = "NotCarried::is_empty")]
    pub not_stored: NotCarried,
}

/// One message of a conversation. A tool call is one together with its answer.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum ConversationMessage {
    /// What was asked.
    User {
        /// Texts and pictures, in order.
        content: Vec<PromptBlock>,
    },
    /// What the model said.
    Assistant {
        /// The text.
        text: String,
        /// Whether it was complete when the turn ended.
        complete: bool,
    },
    /// A tool that the model called.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// Whose tool it is.
        origin: ToolOrigin,
        /// The arguments as JSON, as far as the vendor shows them.
        arguments: Option<String>,
        /// How the call ended.
        status: ToolCallStatus,
        /// What came back, as far as the vendor shows it. A JSON value is its text.
        output: Vec<PromptBlock>,
    },
}
