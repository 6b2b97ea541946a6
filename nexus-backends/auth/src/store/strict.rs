//! Strict JSON parsing: no duplicate keys, no unknown fields, and no error that contains the input.

use std::{collections::BTreeMap, fmt};

use nexus_core::Secret;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, error::Category, value::RawValue};

/// Fields of one object that are not read yet. They borrow from the text.
#[derive(Default)]
pub(super) struct UnreadFields<'a> {
    unread: BTreeMap<&'a str, &'a RawValue>,
    /// True if a field occurred twice.
    is_doubled: bool,
}

impl<'a> UnreadFields<'a> {
    /// Splits `text`, which must be one object, into its fields.
    ///
    /// # Errors
    ///
    /// The fault of the text, without any part of it.
    pub(super) fn of(text: &'a str) -> Result<Self, String> {
        let fields: Self = serde_json::from_str(text).map_err(|error| match error.classify() {
            Category::Eof => "it ends too early".to_owned(),
            Category::Data => "it does not have the format that Nexus writes".to_owned(),
            Category::Syntax | Category::Io => {
                format!("it is not valid JSON at line {}, column {}", error.line(), error.column())
            }
        })?;
        match fields.is_doubled {
            true => Err("it contains the same field more than once".to_owned()),
            false => Ok(fields),
        }
    }

    /// Removes a field and parses it. `kind` names the expected type in errors.
    pub(super) fn take<T: Deserialize<'a>>(&mut self, name: &str, kind: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.unread.remove(name) else { return Ok(None) };
        // The error of serde would quote the value, which may be a token.
        serde_json::from_str(raw.get()).map(Some).map_err(|_| format!("its `{name}` is not {kind}"))
    }

    /// Like [`UnreadFields::take`], but a missing field is an error.
    pub(super) fn require<T: Deserialize<'a>>(&mut self, name: &str, kind: &str) -> Result<T, String> {
        self.take(name, kind)?.ok_or_else(|| format!("it has no `{name}`"))
    }

    /// Removes a field that must be an object.
    pub(super) fn take_object(&mut self, name: &str) -> Result<Self, String> {
        let raw = self.unread.remove(name).ok_or_else(|| format!("it has no `{name}`"))?;
        Self::of(raw.get()).map_err(|_| format!("its `{name}` does not have the format that Nexus writes"))
    }

    /// Returns true if the field exists and is not yet read.
    pub(super) fn has(&self, name: &str) -> bool {
        self.unread.contains_key(name)
    }

    /// Rejects fields that the caller has not read. The error does not show their names, which may be arbitrary text.
    pub(super) fn end(self) -> Result<(), String> {
        match self.unread.is_empty() {
            true => Ok(()),
            false => Err("it contains a field that this version of Nexus does not know".to_owned()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for UnreadFields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;

        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = UnreadFields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = UnreadFields::default();
                while let Some((name, value)) = map.next_entry()? {
                    // Parsers differ in which of two equal fields they use, so such a text is rejected.
                    fields.is_doubled |= fields.unread.insert(name, value).is_some();
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// Text that becomes a [`Secret`] directly as it is parsed.
pub(super) struct SecretText(pub(super) Secret);

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SecretVisitor;

        impl Visitor<'_> for SecretVisitor {
            type Value = SecretText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(SecretText(Secret::new(text)))
            }
        }

        deserializer.deserialize_str(SecretVisitor)
    }
}

/// Any value in which no object has a duplicate key.
pub(super) struct StrictValue(Value);

/// An object without duplicate keys.
pub(super) struct StrictMap(pub(super) Map<String, Value>);

impl<'de> Deserialize<'de> for StrictMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match StrictValue::deserialize(deserializer)?.0 {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(D::Error::custom("not an object")),
        }
    }
}

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not a number"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, StrictValue(value))) = entries.next_entry::<String, _>()? {
            if map.insert(key, value).is_some() {
                return Err(A::Error::custom("it contains the same key more than once"));
            }
        }
        Ok(Value::Object(map))
    }
}
