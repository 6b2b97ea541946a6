//! The loop's own items: a conversation in a form that no wire owns, which a resume handle stores.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use nexus_core::{PromptBlock, ToolContent, ToolResult};
use serde::{Deserialize, Serialize};

use super::compaction::note_text;

/// Item of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Item {
    /// Message of the user or the model.
    Message {
        /// Author of the message.
        role: Author,
        /// Content, in order.
        parts: Vec<ItemPart>,
    },
    /// Reasoning of the model, which only its origin can read.
    Reasoning {
        /// Reasoning in the form of its wire.
        sealed: Sealed,
    },
    /// Call of a tool.
    Call {
        /// Id that pairs the call with its result.
        id: String,
        /// Name of the tool.
        name: String,
        /// Arguments as the model wrote them, which need not be JSON.
        arguments: String,
    },
    /// Result of a call.
    Result {
        /// Id of the call.
        call: String,
        /// Content, in order.
        parts: Vec<ItemPart>,
        /// True if the call failed.
        #[serde(default)]
        is_error: bool,
    },
    /// Note in the position of items that a compaction dropped.
    Compacted {
        /// Number of items that were dropped.
        dropped: u64,
    },
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Author {
    User,
    Assistant,
}

/// Part of a message or a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ItemPart {
    Text { text: String },
    Image { media_type: String, data: String },
}

/// Bytes that only their origin understands. They go back only where the origin is equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sealed {
    /// Wire, server and model that created the bytes.
    pub(crate) origin: Origin,
    /// JSON in the form of the wire.
    pub(crate) json: String,
}

/// Origin of sealed bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// Name of the wire.
    pub(crate) wire: String,
    /// Base URL of the server.
    pub(crate) server: String,
    /// Name of the model in requests.
    pub(crate) model: String,
}

/// Text in place of an image that the server rejected.
pub(crate) const REFUSED_PICTURE: &str = "[a picture was here; the model's server rejected it]";

/// Text in place of the result of a call that was never answered.
pub(crate) const MISSING_RESULT: &str = "[this call has no result: it was not answered]";

/// Text before a result whose call is missing.
pub(crate) const LONE_RESULT: &str = "[the result of a call that is not in this conversation]";

impl ItemPart {
    /// Creates a part with this text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Converts a block of a prompt; `None` if no wire has such a part.
    pub(crate) fn of_block(block: &PromptBlock) -> Option<Self> {
        match block {
            PromptBlock::Text { text } => Some(Self::text(text)),
            PromptBlock::Image { media_type, data } => {
                Some(Self::Image { media_type: media_type.clone(), data: data.clone() })
            }
            _ => None,
        }
    }

    fn of_content(content: &ToolContent) -> Option<Self> {
        match content {
            ToolContent::Text { text } => Some(Self::text(text)),
            ToolContent::Json { value } => Some(Self::text(value.to_string())),
            ToolContent::Image { media_type, data } => {
                Some(Self::Image { media_type: media_type.clone(), data: data.clone() })
            }
            _ => None,
        }
    }
}

/// Returns the parts of a tool's result.
pub(crate) fn result_parts(result: &ToolResult) -> Vec<ItemPart> {
    result.content.iter().filter_map(ItemPart::of_content).collect()
}

/// Returns a hash of a result, which identifies repeated results.
pub(crate) fn result_hash(parts: &[ItemPart], is_error: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parts, is_error).hash(&mut hasher);
    hasher.finish()
}

/// Returns the texts of parts, joined by newlines.
pub(crate) fn joined_text(parts: &[ItemPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ItemPart::Text { text } => Some(text.as_str()),
        ItemPart::Image { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Stretch of a conversation: the user's messages, the model's reply, and the results of its calls.
#[derive(Debug, Default)]
pub(crate) struct Exchange<'a> {
    /// Messages of the user, and results whose call is missing.
    pub(crate) user: Vec<&'a Item>,
    /// Output of the model.
    pub(crate) model: Vec<&'a Item>,
    /// Results in the order of the calls.
    pub(crate) answers: Vec<CallAnswer<'a>>,
}

/// Result of a call, or the lack of one.
#[derive(Debug)]
pub(crate) struct CallAnswer<'a> {
    /// Id of the call.
    pub(crate) call: &'a str,
    /// Content of the result; `None` if the call was not answered.
    pub(crate) result: Option<(&'a [ItemPart], bool)>,
}

impl<'a> Exchange<'a> {
    fn is_waiting_for(&self, id: &str) -> bool {
        self.answers.iter().any(|answer| answer.call == id && answer.result.is_none())
    }

    fn has_results(&self) -> bool {
        self.answers.iter().any(|answer| answer.result.is_some())
    }

    /// Returns the exchanges of a conversation. Every call has an answer right after the reply, as wires require.
    pub(crate) fn all_of(items: &'a [Item]) -> Vec<Self> {
        let mut done = Vec::new();
        let mut current = Self::default();
        for item in items {
            let begins_next = match item {
                Item::Message { role: Author::User, .. } | Item::Compacted { .. } => {
                    !current.model.is_empty()
                }
                Item::Message { .. } | Item::Reasoning { .. } | Item::Call { .. } => current.has_results(),
                Item::Result { call, .. } => !current.is_waiting_for(call) && !current.model.is_empty(),
            };
            if begins_next {
                done.push(std::mem::take(&mut current));
            }
            match item {
                Item::Message { role: Author::User, .. } | Item::Compacted { .. } => current.user.push(item),
                Item::Message { .. } | Item::Reasoning { .. } => current.model.push(item),
                Item::Call { id, .. } => {
                    current.model.push(item);
                    current.answers.push(CallAnswer { call: id, result: None });
                }
                Item::Result { call, parts, is_error } => {
                    let open = |answer: &&mut CallAnswer<'_>| answer.call == call && answer.result.is_none();
                    match current.answers.iter_mut().find(open) {
                        Some(answer) => answer.result = Some((parts, *is_error)),
                        None => current.user.push(item),
                    }
                }
            }
        }
        done.push(current);
        done
    }
}

/// Returns the parts of a user's item. A result without its call becomes text.
pub(crate) fn user_parts(item: &Item) -> Vec<std::borrow::Cow<'_, ItemPart>> {
    use std::borrow::Cow;
    match item {
        Item::Message { parts, .. } => parts.iter().map(Cow::Borrowed).collect(),
        Item::Result { parts, .. } => {
            let label = Cow::Owned(ItemPart::text(LONE_RESULT));
            std::iter::once(label).chain(parts.iter().map(Cow::Borrowed)).collect()
        }
        Item::Compacted { dropped } => vec![Cow::Owned(ItemPart::text(note_text(*dropped)))],
        Item::Reasoning { .. } | Item::Call { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Item {
        Item::Message { role: Author::User, parts: vec![ItemPart::text(text)] }
    }

    fn call(id: &str) -> Item {
        Item::Call { id: id.to_owned(), name: "add".to_owned(), arguments: "{}".to_owned() }
    }

    fn result(id: &str) -> Item {
        Item::Result { call: id.to_owned(), parts: vec![ItemPart::text(id)], is_error: false }
    }

    #[test]
    fn every_call_is_answered_right_after_its_reply() {
        let items = [user("a"), call("1"), call("2"), result("2"), user("b"), result("9"), call("3")];
        let exchanges = Exchange::all_of(&items);
        let seen: Vec<_> = exchanges
            .iter()
            .map(|exchange| {
                let answers: Vec<_> =
                    exchange.answers.iter().map(|answer| (answer.call, answer.result.is_some())).collect();
                (exchange.user.len(), exchange.model.len(), answers)
            })
            .collect();
        assert_eq!(seen, [(1, 2, vec![("1", false), ("2", true)]), (2, 1, vec![("3", false)])]);
    }

    #[test]
    fn items_are_read_as_they_were_stored() {
        let origin = Origin { wire: "w".to_owned(), server: "s".to_owned(), model: "m".to_owned() };
        let reasoning = Item::Reasoning { sealed: Sealed { origin, json: "{\"a\": 1}".to_owned() } };
        let odd =
            Item::Call { id: "1".to_owned(), name: "add".to_owned(), arguments: "{ \"a\" :1}".to_owned() };
        let items = vec![user("é"), reasoning, odd, result("1")];
        let stored = serde_json::to_string(&items).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Item>>(&stored).unwrap(), items);
    }
}
