//! Items: a conversation in a form that belongs to no vendor.
//!
//! A native backend stores a conversation as [`Item`]s in its [`ResumeHandle`](crate::ResumeHandle). Another native backend
//! can continue from them, also over another protocol.
//!
//! The JSON form is stable: [`VERSION`] changes if an earlier version of Nexus could misread it. Arguments of calls and
//! sealed bytes are stored as text, so they stay equal byte for byte.

mod list;

use serde::{Deserialize, Serialize};

use crate::{redact::Redactor, turn::PromptBlock};

pub use list::ItemList;

/// Version of the stored form of items.
pub const VERSION: u32 = 1;

/// Item of a conversation.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Item {
    /// Message of the user or the model.
    Message {
        /// Author of the message.
        role: Author,
        /// Content, in order.
        parts: Vec<ItemPart>,
        /// The message in the form of its wire, if that form has more than the content, such as ids.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
    },
    /// Reasoning of the model, or another output that only its origin can read.
    Reasoning {
        /// Readable part of the reasoning, if the origin shows one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
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
        /// The call in the form of its wire, if that form has more than the fields above, such as a signature.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
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
        /// The result in the form of its wire, if that form has more than the fields above.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Sealed>,
    },
    /// Note in the position of items that a compaction dropped.
    Compacted {
        /// Number of items that were dropped.
        dropped: u64,
        /// Summary of the dropped items, if a model wrote one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
    },
}

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The user, or Nexus in the user's place.
    User,
    /// The model.
    Assistant,
}

/// Part of a message or a result. Exhaustive, so that every wire decides what it does with a new kind of part.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ItemPart {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// A picture.
    Image {
        /// Media type, such as `image/png`.
        media_type: String,
        /// The picture's bytes in base64.
        data: String,
    },
}

/// Bytes that only their origin understands. They go back only where the origin is equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed {
    /// Wire, server and model that created the bytes.
    pub origin: Origin,
    /// JSON in the form of the wire.
    pub json: String,
}

/// Origin of sealed bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Name of the wire.
    pub wire: String,
    /// Base URL of the server.
    pub server: String,
    /// Name of the model in requests.
    pub model: String,
}

impl ItemPart {
    /// Creates a part with this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Converts a block of a prompt; `None` if items have no such part.
    pub fn of_block(block: &PromptBlock) -> Option<Self> {
        match block {
            PromptBlock::Text { text } => Some(Self::text(text)),
            PromptBlock::Image { media_type, data } => {
                Some(Self::Image { media_type: media_type.clone(), data: data.clone() })
            }
        }
    }
}

impl Item {
    /// Creates a message without a form of its wire.
    pub fn message(role: Author, parts: Vec<ItemPart>) -> Self {
        Self::Message { role, parts, sealed: None }
    }

    /// Creates a result without a form of its wire.
    pub fn result(call: impl Into<String>, parts: Vec<ItemPart>, is_error: bool) -> Self {
        Self::Result { call: call.into(), parts, is_error, sealed: None }
    }

    /// Creates a call without a form of its wire.
    pub fn call(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::Call { id: id.into(), name: name.into(), arguments: arguments.into(), sealed: None }
    }

    /// Creates reasoning without a readable part.
    pub fn reasoning(sealed: Sealed) -> Self {
        Self::Reasoning { text: None, sealed }
    }

    /// Returns the item in the form of its wire.
    pub fn sealed(&self) -> Option<&Sealed> {
        match self {
            Self::Message { sealed, .. } | Self::Call { sealed, .. } | Self::Result { sealed, .. } => {
                sealed.as_ref()
            }
            Self::Reasoning { sealed, .. } => Some(sealed),
            Self::Compacted { .. } => None,
        }
    }

    /// Sets or removes the form of the wire. Reasoning always has one, so nothing removes it.
    pub fn set_sealed(&mut self, new: Option<Sealed>) {
        match self {
            Self::Message { sealed, .. } | Self::Call { sealed, .. } | Self::Result { sealed, .. } => {
                *sealed = new;
            }
            Self::Reasoning { sealed, .. } => {
                if let Some(new) = new {
                    *sealed = new;
                }
            }
            Self::Compacted { .. } => {}
        }
    }

    /// Returns the item without the secrets that `redactor` knows; `None` if it contains none. Pictures are not searched,
    /// because base64 shows no secret.
    #[must_use]
    pub fn without_secrets(&self, redactor: &Redactor) -> Option<Self> {
        // Most items contain no secret, so search before copying.
        if self.texts().into_iter().all(|text| redactor.without_secrets(text).is_none()) {
            return None;
        }
        let mut clean = self.clone();
        for text in clean.texts_mut() {
            if let Some(without) = redactor.without_secrets(text) {
                *text = without;
            }
        }
        Some(clean)
    }

    fn texts(&self) -> Vec<&str> {
        // `texts_mut` must return the same fields, or a secret that is found here stays in the item.
        let mut texts: Vec<&str> = Vec::new();
        match self {
            Self::Message { parts, .. } => texts.extend(parts.iter().filter_map(ItemPart::as_text)),
            Self::Reasoning { text, .. } => texts.extend(text.as_deref()),
            Self::Call { id, name, arguments, .. } => texts.extend([id.as_str(), name, arguments]),
            Self::Result { call, parts, .. } => {
                texts.push(call);
                texts.extend(parts.iter().filter_map(ItemPart::as_text));
            }
            Self::Compacted { summary, .. } => texts.extend(summary.as_deref()),
        }
        if let Some(sealed) = self.sealed() {
            texts.extend([sealed.json.as_str(), &sealed.origin.server]);
        }
        texts
    }

    fn texts_mut(&mut self) -> Vec<&mut String> {
        let mut texts: Vec<&mut String> = Vec::new();
        let sealed = match self {
            Self::Message { parts, sealed, .. } => {
                texts.extend(parts.iter_mut().filter_map(ItemPart::as_text_mut));
                sealed.as_mut()
            }
            Self::Reasoning { text, sealed } => {
                texts.extend(text.as_mut());
                Some(sealed)
            }
            Self::Call { id, name, arguments, sealed } => {
                texts.extend([id, name, arguments]);
                sealed.as_mut()
            }
            Self::Result { call, parts, sealed, .. } => {
                texts.push(call);
                texts.extend(parts.iter_mut().filter_map(ItemPart::as_text_mut));
                sealed.as_mut()
            }
            Self::Compacted { summary, .. } => {
                texts.extend(summary.as_mut());
                None
            }
        };
        if let Some(sealed) = sealed {
            texts.extend([&mut sealed.json, &mut sealed.origin.server]);
        }
        texts
    }
}

impl ItemPart {
    /// Returns the text of the part; `None` if it is a picture.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } => None,
        }
    }

    fn as_text_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Text { text } => Some(text),
            Self::Image { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(json: &str) -> Sealed {
        let origin =
            Origin { wire: "chat".into(), server: "http://localhost/v1".into(), model: "small".into() };
        Sealed { origin, json: json.to_owned() }
    }

    #[test]
    fn items_are_read_as_they_were_stored() {
        let items = [
            Item::message(Author::User, vec![ItemPart::text("é")]),
            Item::reasoning(sealed("{\"a\": 1}")),
            Item::Call { id: "1".into(), name: "add".into(), arguments: "{ \"a\" :1}".into(), sealed: None },
            Item::result(
                "1",
                vec![ItemPart::Image { media_type: "image/png".into(), data: "AA".into() }],
                true,
            ),
            Item::Compacted { dropped: 3, summary: None },
        ];
        let stored = serde_json::to_string(&items).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Item>>(&stored).unwrap(), items);
    }

    #[test]
    fn items_of_the_first_handles_are_read() {
        let stored = r#"[{"type":"message","role":"user","parts":[{"type":"text","text":"Add."}]},
            {"type":"reasoning","sealed":{"origin":{"wire":"chat","server":"http://localhost/v1","model":"small"},"json":"{}"}},
            {"type":"call","id":"1","name":"add","arguments":"{}"},
            {"type":"result","call":"1","parts":[]},{"type":"compacted","dropped":2}]"#;
        let items: Vec<Item> = serde_json::from_str(stored).unwrap();
        assert_eq!(items[1], Item::reasoning(sealed("{}")));
        assert_eq!(items[4], Item::Compacted { dropped: 2, summary: None });
    }

    #[test]
    fn a_secret_is_removed_from_every_text_of_an_item() {
        let redactor = Redactor::new(["swordfish"]);
        let text = || "a swordfish".to_owned();
        let sealed = || sealed("{\"a\":\"swordfish\"}");
        let parts = || vec![ItemPart::text(text())];
        for item in [
            Item::Message { role: Author::User, parts: parts(), sealed: Some(sealed()) },
            Item::Reasoning { text: Some(text()), sealed: sealed() },
            Item::Call { id: text(), name: text(), arguments: text(), sealed: Some(sealed()) },
            Item::Result { call: text(), parts: parts(), is_error: false, sealed: Some(sealed()) },
            Item::Compacted { dropped: 1, summary: Some(text()) },
        ] {
            let clean = item.without_secrets(&redactor).unwrap();
            assert!(!format!("{clean:?}").contains("swordfish"), "{clean:?}");
            assert_eq!(clean.without_secrets(&redactor), None);
        }
    }
}
