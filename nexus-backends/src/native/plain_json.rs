//! Values read from plain JSON by a [`JsonCursor`], with the results of the general parser.
//!
//! A server's events are plain in nearly all cases. A value that is not plain, or has an unexpected type, is left to
//! `serde_json`: see [`read`].

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::json_cursor::JsonCursor;
use super::lenient::{Amount, Count, Flag, JsonText, MessagePart, Object, Parts, Text};

/// A type that can be read from plain JSON.
pub(crate) trait PlainJson<'a>: Sized {
    /// Reads the next value. Returns `None` if the general parser has to read the text.
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self>;
}

/// Reads a text: in one pass if it is plain, otherwise with `serde_json`.
pub(crate) fn read<'a, T: PlainJson<'a> + Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    plain(text).map_or_else(|| serde_json::from_str(text), Ok)
}

/// Reads a text if it is plain.
pub(crate) fn plain<'a, T: PlainJson<'a>>(text: &'a str) -> Option<T> {
    let mut cursor = JsonCursor::new(text)?;
    let value = T::plain(&mut cursor)?;
    // Text after the value is an error, which the general parser reports.
    cursor.end().map(|()| value)
}

/// Implements [`PlainJson`] for a struct whose derived `Deserialize` has a default for each of these members. A duplicate
/// member is left to the general parser.
macro_rules! plain_object {
    ($object:ty { $($key:literal => $field:ident),* $(,)? }) => {
        impl<'a> $crate::native::plain_json::PlainJson<'a> for $object {
            fn plain(cursor: &mut $crate::native::json_cursor::JsonCursor<'a>) -> Option<Self> {
                let mut object = Self::default();
                $( let mut $field = false; )*
                cursor.object(|key, value| {
                    match key {
                        $( $key => {
                            (!::std::mem::replace(&mut $field, true)).then_some(())?;
                            object.$field = $crate::native::plain_json::PlainJson::plain(value)?;
                        } )*
                        _ => value.skip()?,
                    }
                    Some(())
                })?;
                Some(object)
            }
        }
    };
}

pub(crate) use plain_object;

/// Reads a value that every lenient type takes for the empty value.
fn empty<T: Default>(cursor: &mut JsonCursor<'_>) -> Option<T> {
    (cursor.null() || cursor.boolean().is_some()).then(T::default)
}

impl<'a> PlainJson<'a> for Text<'a> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()? == b'"' { cursor.string().map(Text) } else { empty(cursor) }
    }
}

impl<'a> PlainJson<'a> for JsonText<'a> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()? == b'"' { cursor.string().map(JsonText) } else { empty(cursor) }
    }
}

impl<'a> PlainJson<'a> for Count {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()?.is_ascii_digit() { Some(Count(Some(cursor.number()?))) } else { empty(cursor) }
    }
}

impl<'a> PlainJson<'a> for Amount {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()?.is_ascii_digit() {
            Some(Amount(Some(cursor.number()? as f64)))
        } else {
            empty(cursor)
        }
    }
}

impl<'a> PlainJson<'a> for Flag {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.null() { Some(Flag(None)) } else { Some(Flag(Some(cursor.boolean()?))) }
    }
}

impl<'a, T: PlainJson<'a>> PlainJson<'a> for Object<T> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()? == b'{' { Some(Object(Some(T::plain(cursor)?))) } else { empty(cursor) }
    }
}

impl<'a> PlainJson<'a> for Parts<'a> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.peek()? != b'[' {
            return empty(cursor);
        }
        let mut parts = Vec::new();
        cursor.array(|element| {
            parts.push(MessagePart::plain(element)?);
            Some(())
        })?;
        Some(Parts(parts))
    }
}

/// Only a text and `null` are plain.
impl<'a> PlainJson<'a> for Value {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        if cursor.null() {
            Some(Value::Null)
        } else {
            cursor.string().map(|text| Value::String(text.into_owned()))
        }
    }
}

/// Only an error that is `null` is plain.
impl<'a> PlainJson<'a> for Option<&'a RawValue> {
    fn plain(cursor: &mut JsonCursor<'a>) -> Option<Self> {
        cursor.null().then_some(None)
    }
}

plain_object!(MessagePart<'a> { "text" => text, "refusal" => refusal });

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Everything<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        #[serde(borrow)]
        json: JsonText<'a>,
        count: Count,
        amount: Amount,
        flag: Flag,
        #[serde(borrow)]
        parts: Parts<'a>,
        #[serde(borrow)]
        inner: Object<MessagePart<'a>>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
        value: Value,
    }

    plain_object!(Everything<'a> {
        "text" => text,
        "json" => json,
        "count" => count,
        "amount" => amount,
        "flag" => flag,
        "parts" => parts,
        "inner" => inner,
        "raw" => raw,
        "value" => value,
    });

    #[test]
    fn a_plain_object_needs_no_general_parser() {
        let text =
            r#"{"text":"a\n","json":"{\"b\":1}","count":3,"amount":2,"flag":false,"other":[{"x":-1.5}],
            "parts":[{"text":"é","type":"x"}],"inner":{"refusal":"no"},"raw":null,"value":"v"}"#
                .replace('\n', " ");
        let read: Everything<'_> = plain(&text).expect("the text is plain");
        assert_eq!((read.text.as_str(), read.json.0.as_ref(), read.count.0), ("a\n", "{\"b\":1}", Some(3)));
        assert_eq!((read.amount.0, read.flag.0, read.parts.0.len()), (Some(2.0), Some(false), 1));
        let general: Everything<'_> = serde_json::from_str(&text).unwrap();
        assert_eq!(format!("{read:?}"), format!("{general:?}"));
    }

    #[test]
    fn a_duplicate_member_is_left_to_the_general_parser() {
        assert!(plain::<Everything<'_>>(r#"{"count":1,"count":2}"#).is_none());
        assert!(plain::<Everything<'_>>(r#"{"text":null,"text":"a"}"#).is_none());
        assert!(read::<Everything<'_>>(r#"{"count":1,"count":2}"#).is_err());
    }

    fn member() -> impl Strategy<Value = String> {
        let key = prop::sample::select(vec![
            "text", "json", "count", "amount", "flag", "parts", "inner", "raw", "value", "other", "é", "",
        ]);
        let value = prop_oneof![
            4 => "\"[a-z{},:é ]{0,6}\"",
            2 => "[0-9]{1,18}",
            5 => prop::sample::select(vec![
                "null", "true", "false", "[]", "{}", "[ ]", "[{}]", "[{\"text\":\"a\"}]", "[\"a\"]", "[1]", "[null]",
                "{\"text\":\"a\",\"refusal\":null}", "{\"text\":1}", "{\"text\":\"a\",\"text\":\"b\"}",
            ]).prop_map(str::to_owned),
            2 => prop::sample::select(vec![
                "nul", "-1", "1e3", "1.5", "\"\\n\\\"\"", "\"\\u00e9\"", "\"\\ud83d\"", "", "{\"a\":1}", "NaN", "01",
            ]).prop_map(str::to_owned),
        ];
        let space = prop_oneof![3 => Just(""), 1 => Just(" ")];
        (key, space.clone(), value, space)
            .prop_map(|(key, before, value, after)| format!("\"{key}\"{before}:{after}{value}{before}"))
    }

    proptest! {
        /// The members of JSON objects, whole and broken.
        #[test]
        fn both_parsers_give_the_same_result(
            members in prop::collection::vec(member(), 0..7),
            end in prop_oneof![6 => Just("}"), 1 => Just(" } "), 1 => Just(",}"), 1 => Just("")],
        ) {
            let text = format!("{{{}{end}", members.join(","));
            if let Some(read) = plain::<Everything<'_>>(&text) {
                let general: Everything<'_> = serde_json::from_str(&text).unwrap();
                prop_assert_eq!(format!("{read:?}"), format!("{general:?}"));
            }
        }
    }
}
