//! JSON read strictly: nothing twice, nothing unknown, and no error that shows what was read.

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
    /// Whether one stood there twice.
    is_doubled: bool,
}

impl<'a> UnreadFields<'a> {
    /// Finds the fields of the one object that `text` is.
    ///
    /// # Errors
    ///
    /// What is wrong, without any of the text.
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

    /// Takes a field out and reads it; `kind` names what it has to be.
    pub(super) fn take<T: Deserialize<'a>>(&mut self, name: &str, kind: &str) -> Result<Option<T>, String> {
        let Some(raw) = self.unread.remove(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|_| format!("its `{name}` is not {kind}"))
    }

    /// As [`UnreadFields::take`]; without the field it is an error.
    pub(super) fn require<T: Deserialize<'a>>(&mut self, name: &str, kind: &str) -> Result<T, String> {
        self.take(name, kind)?.ok_or_else(|| format!("it has no `{name}`"))
    }

    /// Takes out a field that is an object.
    pub(super) fn take_object(&mut self, name: &str) -> Result<Self, String> {
        let raw = self.unread.remove(name).ok_or_else(|| format!("it has no `{name}`"))?;
        Self::of(raw.get()).map_err(|_| format!("its `{name}` does not have the format that Nexus writes"))
    }

    /// Whether the field is there and not yet read.
    pub(super) fn has(&self, name: &str) -> bool {
        self.unread.contains_key(name)
    }

    /// Refuses what nobody has read. Its name is not shown: it may be anything.
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
                    fields.is_doubled |= fields.unread.insert(name, value).is_some();
                }
                Ok(fields)
            }
        }

        deserializer.deserialize_map(FieldsVisitor)
    }
}

/// A text that goes into a [`Secret`] straight from where it was read.
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

/// Any value in which no object names a key twice.
pub(super) struct StrictValue(Value);

/// An object like that.
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
