//! Events of the stream, which borrow from the received bytes.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::native::lenient::{Count, Object, Text};

/// Event of any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamEvent<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    pub(super) index: Count,
    #[serde(borrow)]
    pub(super) message: Object<WholeMessage<'a>>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Object<Delta<'a>>,
    pub(super) usage: Object<UsageCounts>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// Message, complete or at its start.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WholeMessage<'a> {
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: crate::native::lenient::RawItems<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_details: Object<StopDetails<'a>>,
    pub(super) usage: Object<UsageCounts>,
}

/// Change of a block or of the message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) partial_json: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
    #[serde(borrow)]
    pub(super) stop_details: Object<StopDetails<'a>>,
}

/// Reason of a refusal.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow)]
    pub(super) explanation: Text<'a>,
}

/// Block of the message's content.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) signature: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// Token counts so far. Input excludes cached tokens, output includes thinking.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageCounts {
    pub(super) input_tokens: Count,
    pub(super) cache_creation_input_tokens: Count,
    pub(super) cache_read_input_tokens: Count,
    pub(super) output_tokens: Count,
    pub(super) output_tokens_details: Object<OutputCounts>,
}

/// Part of the output tokens.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputCounts {
    pub(super) thinking_tokens: Count,
}
