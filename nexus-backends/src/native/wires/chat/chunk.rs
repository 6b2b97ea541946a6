//! Chunk of the stream, or a whole completion, which borrows from the received bytes.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::value::RawValue;

use crate::native::lenient::{Count, List, Object, Parts, Text};
use crate::native::usage::UsageReport;

/// Chunk of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Chunk<'a> {
    /// Type of the object, which some servers set for an error.
    #[serde(borrow)]
    pub(super) object: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) choices: Option<List<Choice<'a>>>,
    pub(super) usage: Object<UsageReport>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// Extension in which Groq reports the usage.
    pub(super) x_groq: Object<Extension>,
}

/// Extension with a usage.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Extension {
    pub(super) usage: Object<UsageReport>,
}

/// One of several alternative answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Choice<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) delta: Object<Delta<'a>>,
    /// Whole message, from a server that does not stream.
    #[serde(borrow)]
    pub(super) message: Object<Delta<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    /// Usage as Moonshot reports it.
    pub(super) usage: Object<UsageReport>,
}

/// Piece of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_content: Text<'a>,
    #[serde(borrow)]
    pub(super) reasoning_details: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: List<CallDelta<'a>>,
    /// The form before `tool_calls`.
    #[serde(borrow)]
    pub(super) function_call: Object<FunctionDelta<'a>>,
}

impl Delta<'_> {
    /// Returns true if the piece extends the answer.
    pub(super) fn has_content(&self) -> bool {
        let has_text = match &self.content {
            Content::Nothing => false,
            Content::Text(text) => !text.is_empty(),
            Content::Parts(List(parts)) => !parts.is_empty(),
        };
        let has_thinking = !self.reasoning_content.is_empty() || !self.reasoning.is_empty();
        has_text || has_thinking || !self.refusal.is_empty() || !self.tool_calls.0.is_empty()
    }
}

/// Piece of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta<'a> {
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) function: Object<FunctionDelta<'a>>,
}

/// Name and arguments of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: ArgumentsPiece<'a>,
}

/// Part of a message whose content is a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContentPart<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    /// Thinking as Mistral sends it: a text, or a list of texts.
    #[serde(borrow)]
    pub(super) thinking: Parts<'a>,
}

/// Content of a message.
#[derive(Debug, Default)]
pub(super) enum Content<'a> {
    #[default]
    Nothing,
    Text(Cow<'a, str>),
    Parts(List<ContentPart<'a>>),
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub(super) enum ArgumentsPiece<'a> {
    #[default]
    Nothing,
    /// Piece of the JSON text.
    Piece(Cow<'a, str>),
    /// Whole object in place of a text, byte for byte.
    Object(&'a str),
}

// Both read a raw value first, because only its bytes show which form it has.
impl<'de: 'a, 'a> Deserialize<'de> for Content<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw.bytes().next() {
            Some(b'"') => text(raw).map(Self::Text).map_err(D::Error::custom),
            Some(b'[') => serde_json::from_str(raw).map(Self::Parts).map_err(D::Error::custom),
            _ => Ok(Self::Nothing),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for ArgumentsPiece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        match raw.bytes().next() {
            Some(b'"') => text(raw).map(Self::Piece).map_err(D::Error::custom),
            Some(b'{') => Ok(Self::Object(raw)),
            _ => Ok(Self::Nothing),
        }
    }
}

fn text(raw: &str) -> Result<Cow<'_, str>, serde_json::Error> {
    serde_json::from_str::<Text<'_>>(raw).map(|text| text.0)
}
