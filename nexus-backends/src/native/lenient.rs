//! Lenient values: `null`, a missing field or a value of another type becomes the empty value.
//!
//! The visitors parse in one pass and borrow from the event. Measured on a delta event of seven keys, of which five are
//! used (callgrind, instructions per event): these visitors take 3,520. A `&RawValue` for each field, distinguished by
//! its first byte, takes 4,190 (19 % more). `serde_with::DefaultOnError` takes 4,340 (23 % more). It also allocates its
//! text, because it buffers each value first, and it cannot read a `RawValue` from that buffer.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
        value::{MapAccessDeserializer, SeqAccessDeserializer},
    },
};
use serde_json::{Value, value::RawValue};

/// Text; empty for any other value. A number becomes its spelling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// JSON as text: an object in place of a string is serialised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonText<'a>(pub(crate) Cow<'a, str>);

/// Count; `None` for any other value and for a negative number. A number may be written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

/// Amount; parsed like [`Count`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Amount(pub(crate) Option<f64>);

/// Boolean; `None` for any other value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flag(pub(crate) Option<bool>);

/// Object; `None` for any other value.
#[derive(Clone, Debug)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A list of unparsed items; empty for any other value.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawItems<'a>(pub(crate) Vec<&'a RawValue>);

/// Parts of a message. A plain string becomes one part, as does an element that is a string.
#[derive(Debug, Default)]
pub(crate) struct Parts<'a>(pub(crate) Vec<MessagePart<'a>>);

/// Part of a message or of reasoning.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MessagePart<'a> {
    #[serde(borrow)]
    pub(crate) text: Text<'a>,
    #[serde(borrow)]
    pub(crate) refusal: Text<'a>,
}

fn rest_of_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    // A visitor must consume the whole value, or the deserialiser fails at the next one.
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

fn rest_of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Defines the visitor methods for value types that are ignored.
macro_rules! ignored {
    ($($kind:ident)*) => { $( ignored!(@ $kind); )* };
    (@ unit) => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ bool) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ numbers) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }

        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ text) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
    };
    (@ list) => {
        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            rest_of_list(list)?;
            Ok(Self::Value::default())
        }
    };
    (@ map) => {
        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            rest_of_map(map)?;
            Ok(Self::Value::default())
        }
    };
}

/// Defines a visitor and its value type; `borrowed` if the value may borrow text from the bytes.
macro_rules! visitor {
    ($name:ident for borrowed $value:ident { $($body:tt)* }) => {
        visitor!(@ $name, $value<'de>, $($body)*);

        impl<'de: 'a, 'a> Deserialize<'de> for $value<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($name)
            }
        }
    };
    ($name:ident for $value:ident { $($body:tt)* }) => {
        visitor!(@ $name, $value, $($body)*);

        impl<'de> Deserialize<'de> for $value {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any($name)
            }
        }
    };
    (@ $name:ident, $value:ty, $($body:tt)*) => {
        struct $name;

        impl<'de> Visitor<'de> for $name {
            type Value = $value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any JSON value")
            }

            $($body)*
        }
    };
}

visitor!(TextVisitor for borrowed Text {
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(number.to_string())))
    }

    ignored!(unit bool list map);
});

visitor!(JsonTextVisitor for borrowed JsonText {
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<JsonText<'de>, E> {
        Ok(JsonText(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<JsonText<'de>, E> {
        Ok(JsonText(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JsonText<'de>, A::Error> {
        let value = Value::deserialize(MapAccessDeserializer::new(map))?;
        Ok(JsonText(Cow::Owned(value.to_string())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<JsonText<'de>, A::Error> {
        let value = Value::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(JsonText(Cow::Owned(value.to_string())))
    }

    ignored!(unit bool numbers);
});

visitor!(CountVisitor for Count {
    fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
        Ok(Count(Some(number)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
        // A negative count is an error of the server, so it counts as unknown.
        Ok(Count(u64::try_from(number).ok()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
        // The cast from a float saturates.
        Ok(Count((number >= 0.0).then_some(number as u64)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
        Ok(Count(text.trim().parse().ok()))
    }

    ignored!(unit bool list map);
});

visitor!(AmountVisitor for Amount {
    fn visit_u64<E: Error>(self, number: u64) -> Result<Amount, E> {
        Ok(Amount(Some(number as f64)))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Amount, E> {
        Ok(Amount(None))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Amount, E> {
        Ok(Amount((number.is_finite() && number >= 0.0).then_some(number)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Amount, E> {
        // `parse` also accepts `inf` and `NaN`, so check the number like any other.
        text.trim().parse().map_or(Ok(Amount(None)), |number| self.visit_f64(number))
    }

    ignored!(unit bool list map);
});

visitor!(FlagVisitor for Flag {
    fn visit_bool<E: Error>(self, flag: bool) -> Result<Flag, E> {
        Ok(Flag(Some(flag)))
    }

    ignored!(unit numbers text list map);
});

visitor!(RawItemsVisitor for borrowed RawItems {
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawItems<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(RawItems(items))
    }

    ignored!(unit bool numbers text map);
});

visitor!(PartsVisitor for borrowed Parts {
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Parts<'de>, E> {
        Ok(Parts(vec![MessagePart { text: Text(Cow::Borrowed(text)), refusal: Text::default() }]))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Parts<'de>, E> {
        Ok(Parts(vec![MessagePart { text: Text(Cow::Owned(text.to_owned())), refusal: Text::default() }]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Parts<'de>, A::Error> {
        let mut parts = Vec::new();
        // A seed, because an element may be a string, which the derived `MessagePart` rejects.
        while let Some(part) = list.next_element_seed(PartVisitor)? {
            parts.push(part);
        }
        Ok(Parts(parts))
    }

    ignored!(unit bool numbers map);
});

struct PartVisitor;

impl<'de> DeserializeSeed<'de> for PartVisitor {
    type Value = MessagePart<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<MessagePart<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for PartVisitor {
    type Value = MessagePart<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<MessagePart<'de>, E> {
        Ok(MessagePart { text: Text(Cow::Borrowed(text)), refusal: Text::default() })
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<MessagePart<'de>, E> {
        Ok(MessagePart { text: Text(Cow::Owned(text.to_owned())), refusal: Text::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MessagePart<'de>, A::Error> {
        MessagePart::deserialize(MapAccessDeserializer::new(map))
    }

    ignored!(unit bool numbers list);
}

struct ObjectVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
    }

    ignored!(unit bool numbers text list);
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(std::marker::PhantomData))
    }
}

/// List of objects. Elements of another kind are skipped; any other value is an empty list.
#[derive(Clone, Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

struct ListVisitor<T>(std::marker::PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
        let mut items = Vec::new();
        // `Object` consumes an element of any type, so one unexpected element does not end the list.
        while let Some(Object(item)) = list.next_element()? {
            items.extend(item);
        }
        Ok(List(items))
    }

    ignored!(unit bool numbers text map);
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(std::marker::PhantomData))
    }
}
