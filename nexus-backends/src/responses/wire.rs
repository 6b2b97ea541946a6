//! The vendor's words, borrowed from the bytes they came in.
//!
//! Servers differ in what they leave out, send as `null`, or write as text instead of a number. So a field says
//! what can be made of it, and nothing about one field spoils the event. Items stay raw: they go back to the
//! server as they came.

mod lenient;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::lenient::{Amount, Count, Flag, JsonText, Object, Parts, RawItems, Text};

/// The `type` of an event whose first key is something else.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Typed<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
}

/// Any event that adds to a part of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DeltaEvent<'a> {
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    pub(super) output_index: Count,
    pub(super) summary_index: Count,
    #[serde(borrow)]
    pub(super) delta: Text<'a>,
}

/// Any event that tells a whole part of an item.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartEvent<'a> {
    #[serde(borrow)]
    pub(super) item_id: Text<'a>,
    pub(super) output_index: Count,
    pub(super) summary_index: Count,
    pub(super) content_index: Count,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: JsonText<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
}

/// `response.output_item.added` and `.done`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ItemEvent<'a> {
    pub(super) output_index: Count,
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
}

/// An item of the output: of each kind, what is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    pub(super) arguments: JsonText<'a>,
    #[serde(borrow)]
    pub(super) input: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Parts<'a>,
    #[serde(borrow)]
    pub(super) summary: Parts<'a>,
}

/// Fields of an item by which a known one is recognised.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ItemHead<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
}

/// A call that the server answered itself.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HostedItem<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) action: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) queries: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) code: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) output: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// One part of a message or of thinking.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) refusal: Text<'a>,
}

/// Any event that carries the response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseEvent<'a> {
    #[serde(borrow)]
    pub(super) response: Object<Response<'a>>,
}

/// The response, as far as it is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) output: RawItems<'a>,
    pub(super) usage: Object<UsageReport>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) incomplete_details: Object<IncompleteDetails<'a>>,
    pub(super) end_turn: Flag,
}

/// Why a response is incomplete.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}

/// Tokens and price, as servers report them. Input holds the cached tokens, output the reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageReport {
    pub(super) input_tokens: Count,
    pub(super) output_tokens: Count,
    /// The chat API's name; servers that began with that API still use it.
    pub(super) prompt_tokens: Count,
    /// The chat API's name.
    pub(super) completion_tokens: Count,
    pub(super) input_tokens_details: Object<InputDetails>,
    pub(super) output_tokens_details: Object<OutputDetails>,
    pub(super) prompt_tokens_details: Object<InputDetails>,
    pub(super) completion_tokens_details: Object<OutputDetails>,
    /// 10^10 of them are one United States dollar. Source: observed.
    pub(super) cost_in_usd_ticks: Amount,
    /// In United States dollars, as OpenRouter reports it.
    pub(super) cost: Amount,
}

/// Parts of the input that came from a cache or went to one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InputDetails {
    pub(super) cached_tokens: Count,
    pub(super) cache_write_tokens: Count,
}

/// Part of the output that was reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputDetails {
    pub(super) reasoning_tokens: Count,
}
