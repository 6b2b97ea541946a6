//! Lines of a conversation's log.

use nexus_core::{BackendId, ErrorKind, ModelId, ResumeHandle, item::Item, name_type};
use serde::{Deserialize, Serialize};

use crate::{
    conversation::{ConversationMessage, ConversationTurn},
    name::ConversationName,
    not_carried::NotCarried,
};

name_type! {
    /// Name of a log's file without its extension: the file name of its conversation, a point, and 16 hexadecimal digits.
    /// The digits tell the log of a deleted conversation, which forks still read, from that of a new one with the same name.
    pub(crate) struct LogId: check_id => &'static str;
}

impl LogId {
    /// Returns a new name.
    pub(crate) fn new(name: &ConversationName) -> Self {
        Self(format!("{}.{}", name.stem(), nexus_files::random_name()).into())
    }

    /// Returns the file name of its conversation without the extension.
    pub(crate) fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(stem, _)| stem)
    }
}

fn check_id(text: &str) -> Result<(), &'static str> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_id = text.rsplit_once('.').is_some_and(|(stem, digits)| {
        stem.parse::<ConversationName>().is_ok_and(|name| name.stem() == stem)
            && digits.len() == 16
            && digits.bytes().all(is_hex)
    });
    if is_id { Ok(()) } else { Err("it names a log with a text that is no name of a log") }
}

/// Line of a log. The first line of a [record](crate::log_record) is `begin`, the last one is `conversation` or `end`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConversationLine {
    /// Length and check of the record.
    Begin(String),
    /// Closes the first record of a log.
    Conversation(LogHeader),
    /// Message of a turn.
    Message(ConversationMessage),
    /// Item that the turn added to the vendor-neutral form of the conversation.
    Item(Item),
    /// Closes the record of a turn.
    End(Box<TurnEndLine>),
}

/// Beginnings of the lines whose content a reader may skip.
pub(crate) const MESSAGE_LINE: &[u8] = b"{\"message\":";
pub(crate) const ITEM_LINE: &[u8] = b"{\"item\":";

/// The conversation of a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogHeader {
    pub(crate) version: u64,
    pub(crate) name: ConversationName,
    pub(crate) created_at_ms: u64,
    /// Position that the conversation continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fork: Option<LogPoint>,
    pub(crate) check: String,
}

/// Position in another log, and the counts up to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogPoint {
    pub(crate) log: LogId,
    /// Offset of the end of the last turn's record, in bytes.
    pub(crate) offset: u64,
    /// Number of the last turn's messages before the position. All by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cut: Option<usize>,
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    #[serde(default, skip_serializing_if = "NotCarried::is_empty")]
    pub(crate) not_carried: NotCarried,
}

/// End of a turn: its fields apart from the messages, and the state of the conversation after it. Unknown fields are
/// ignored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnEndLine {
    /// Numbers of turns and messages up to here, including those before a fork.
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    /// Number of the turn's own messages.
    pub(crate) added: u64,
    pub(crate) stored_at_ms: u64,
    pub(crate) turn: TurnFields,
    /// Parts that a model which reads all messages since the last fresh beginning does not see.
    #[serde(default, skip_serializing_if = "NotCarried::is_empty")]
    pub(crate) not_carried: NotCarried,
    #[serde(default, skip_serializing_if = "ItemCounts::is_none")]
    pub(crate) items: ItemCounts,
    /// The vendor's handle without its items, if the vendor's conversation equals this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume: Option<ResumeHandle>,
    pub(crate) check: String,
}

/// Items of a conversation after a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ItemCounts {
    /// Number of items of the turn before that stay. The items of this turn follow them, and replace the others.
    pub(crate) kept: usize,
    /// Number of all items.
    pub(crate) total: usize,
}

impl ItemCounts {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// A turn without its messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TurnFields {
    ended_at_ms: u64,
    backend: Option<BackendId>,
    model: Option<ModelId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<ErrorKind>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begins_afresh: bool,
    #[serde(default, skip_serializing_if = "NotCarried::is_empty")]
    not_stored: NotCarried,
}

impl TurnFields {
    /// Splits a turn into its messages and its other fields.
    pub(crate) fn split(turn: ConversationTurn) -> (Vec<ConversationMessage>, Self) {
        let ConversationTurn { ended_at_ms, backend, model, failure, begins_afresh, messages, not_stored } =
            turn;
        (messages, Self { ended_at_ms, backend, model, failure, begins_afresh, not_stored })
    }

    /// Returns the turn with these messages.
    pub(crate) fn with(self, messages: Vec<ConversationMessage>) -> ConversationTurn {
        let Self { ended_at_ms, backend, model, failure, begins_afresh, not_stored } = self;
        ConversationTurn { ended_at_ms, backend, model, failure, begins_afresh, messages, not_stored }
    }
}

/// End of a turn as far as lists show it. The handle's state is not parsed.
#[derive(Debug, Deserialize)]
pub(crate) struct ListedEnd {
    pub(crate) turns: u64,
    pub(crate) messages: u64,
    pub(crate) stored_at_ms: u64,
    #[serde(default)]
    pub(crate) resume: Option<ListedHandle>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ListedHandle {
    pub(crate) backend: BackendId,
}
