//! A conversation as data that belongs to no vendor.

use nexus_core::{BackendId, ErrorKind, ModelId, PromptBlock, ToolCallStatus, turn::ToolOrigin};
use serde::{Deserialize, Serialize};

use crate::not_carried::NotCarried;

/// A conversation: its turns, oldest first. Messages are counted from 1 over all turns.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// Turns, oldest first.
    pub turns: Vec<ConversationTurn>,
}

impl Conversation {
    /// Returns the messages of all turns, in order.
    pub fn messages(&self) -> impl Iterator<Item = &ConversationMessage> {
        self.turns.iter().flat_map(|turn| &turn.messages)
    }
}

/// One turn of a conversation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationTurn {
    /// End time, in milliseconds since 1970-01-01 00:00 UTC.
    pub ended_at_ms: u64,
    /// Backend of the turn. For people; never shown to an agent.
    pub backend: Option<BackendId>,
    /// The model, as the vendor named it, else as requested.
    pub model: Option<ModelId>,
    /// Reason of its failure. A failed turn has the messages up to the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ErrorKind>,
    /// True if the model did not see the earlier turns.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins_afresh: bool,
    /// Messages and calls, in order.
    pub messages: Vec<ConversationMessage>,
    /// Parts of the turn that are not stored.
    #[serde(default, skip_serializing_if = "NotCarried::is_empty")]
    pub not_stored: NotCarried,
}

/// One message of a conversation, or a tool call with its answer.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "role")]
pub enum ConversationMessage {
    /// A prompt.
    User {
        /// Texts and pictures, in order.
        content: Vec<PromptBlock>,
    },
    /// A message of the model.
    Assistant {
        /// The text.
        text: String,
        /// True if it was complete when the turn ended.
        complete: bool,
    },
    /// A tool that the model called.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// Owner of the tool.
        origin: ToolOrigin,
        /// The arguments as JSON, as far as the vendor shows them.
        arguments: Option<String>,
        /// End of the call.
        status: ToolCallStatus,
        /// Its output, as far as the vendor shows it. A JSON value is stored as text.
        output: Vec<PromptBlock>,
    },
}
