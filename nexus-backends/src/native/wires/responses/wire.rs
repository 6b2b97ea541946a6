//! Types of the wire format, which borrow from the received bytes.
//!
//! Servers differ in the fields that they omit, send as `null`, or write as text instead of a number. So each field
//! accepts any usable value, and an unusable field does not affect the rest of the event. Items stay raw, because they
//! are sent back unchanged.

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use crate::native::lenient::{Count, Flag, JsonText, Object, Parts, RawItems, Text};
use crate::native::usage::UsageReport;

/// Type of an event whose first key is another field.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Typed<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Text<'a>,
}

/// Event with a delta of an item's part.
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

/// Event with a complete part of an item.
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

/// Output item, with the used fields of every kind.
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

/// Fields that identify an item.
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

/// Call that the server answered itself.
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

/// Event that contains the response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResponseEvent<'a> {
    #[serde(borrow)]
    pub(super) response: Object<Response<'a>>,
}

/// Used fields of the response.
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

/// Reason why a response is incomplete.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IncompleteDetails<'a> {
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
}
