//! Types of the wire format, which borrow from the received bytes.
//!
//! Servers differ in the fields that they omit, send as `null`, or write as text instead of a number. So each field
//! accepts any usable value, and an unusable field does not affect the rest of the event. Items stay raw, because they
//! are sent back unchanged.

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::native::json_cursor::JsonCursor;
pub(super) use crate::native::lenient::{Count, Flag, JsonText, Object, Parts, RawItems, Text};
use crate::native::plain_json::{PlainJson, plain_object};
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
    pub(super) item: JsonItem<'a>,
}

/// JSON of an item; `None` for `null`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JsonItem<'a>(pub(super) Option<&'a str>);

/// JSON of each item of a list; empty for any other value.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonItems<'a>(pub(super) Vec<&'a str>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonItem<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<&'a RawValue>::deserialize(deserializer).map(|raw| Self(raw.map(RawValue::get)))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for JsonItems<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawItems::deserialize(deserializer)
            .map(|items| Self(items.0.into_iter().map(RawValue::get).collect()))
    }
}

impl<'a> PlainJson<'a> for JsonItem<'a> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.null() { Some(Self(None)) } else { Some(Self(Some(cursor.raw()?))) }
    }
}

impl<'a> PlainJson<'a> for JsonItems<'a> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.null() {
            return Some(Self::default());
        }
        let mut items = Vec::new();
        cursor.array(|element| {
            items.push(element.raw()?);
            Some(())
        })?;
        Some(Self(items))
    }
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
    // Raw, because its form differs between the kinds of hosted calls.
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
    pub(super) output: JsonItems<'a>,
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

plain_object!(Typed<'a> { "type" => kind });
plain_object!(DeltaEvent<'a> {
    "item_id" => item_id,
    "output_index" => output_index,
    "summary_index" => summary_index,
    "delta" => delta,
});
plain_object!(PartEvent<'a> {
    "item_id" => item_id,
    "output_index" => output_index,
    "summary_index" => summary_index,
    "content_index" => content_index,
    "text" => text,
    "refusal" => refusal,
    "arguments" => arguments,
    "input" => input,
});
plain_object!(ItemEvent<'a> { "output_index" => output_index, "item" => item });
plain_object!(Item<'a> {
    "type" => kind,
    "id" => id,
    "call_id" => call_id,
    "name" => name,
    "namespace" => namespace,
    "arguments" => arguments,
    "input" => input,
    "content" => content,
    "summary" => summary,
});
plain_object!(ItemHead<'a> { "type" => kind, "id" => id, "call_id" => call_id });
plain_object!(ResponseEvent<'a> { "response" => response });
plain_object!(Response<'a> {
    "id" => id,
    "status" => status,
    "model" => model,
    "output" => output,
    "usage" => usage,
    "error" => error,
    "incomplete_details" => incomplete_details,
    "end_turn" => end_turn,
});
plain_object!(IncompleteDetails<'a> { "reason" => reason });
