//! Whether a schema is one that servers take as strict.
//!
//! Source: the documentation of structured outputs: every object closed and every property required, no root
//! but a plain object, a part of the vocabulary, and limits of size.

use serde_json::{Map, Value};

use super::keywords;
use super::keywords::{Holds, holds};

const MAX_PROPERTIES: usize = 5_000;
/// Objects and arrays inside of one another.
const MAX_NESTING: usize = 10;
const MAX_ENUM_VALUES: usize = 1_000;
/// Names of properties and definitions, and values, together.
const MAX_TEXT_BYTES: usize = 120_000;

/// Keywords that a strict schema may use. `title` is harmless wherever it was tried.
const KNOWN: [&str; 21] = [
    "$defs",
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "properties",
    "required",
    "title",
];

/// Formats of text that a strict schema may name.
const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

#[derive(Debug, Default)]
struct Size {
    properties: usize,
    enum_values: usize,
    text_bytes: usize,
}

/// Whether servers take `schema` as strict.
pub(super) fn is_strict(schema: &Value) -> bool {
    let mut size = Size::default();
    let Some(root) = schema.as_object() else { return false };
    keywords::types(root) == ["object"]
        && !root.contains_key("anyOf")
        && subschema(root, 0, &mut size)
        && size.properties <= MAX_PROPERTIES
        && size.enum_values <= MAX_ENUM_VALUES
        && size.text_bytes <= MAX_TEXT_BYTES
}

fn subschema(schema: &Map<String, Value>, nesting: usize, size: &mut Size) -> bool {
    let is_known = |keyword: &String| keyword == "type" || KNOWN.contains(&keyword.as_str());
    if nesting > MAX_NESTING || !schema.keys().all(is_known) {
        return false;
    }
    if schema.contains_key("$ref") {
        return schema.keys().all(|keyword| keyword == "$ref");
    }
    let types = keywords::types(schema);
    if types.is_empty() && !schema.contains_key("anyOf") {
        return false;
    }
    count(schema, size);
    let format = schema.get("format").and_then(Value::as_str);
    format.is_none_or(|format| FORMATS.contains(&format))
        && (!types.contains(&"object") || is_closed(schema))
        && (!types.contains(&"array") || schema.get("items").is_some_and(Value::is_object))
        && schema.iter().all(|(keyword, value)| match (holds(keyword), value) {
            // That it is `false` is seen above.
            _ if keyword == "additionalProperties" => true,
            (Holds::Schema, Value::Object(schema)) => subschema(schema, nesting + 1, size),
            (Holds::Schema, _) => false,
            (Holds::List, value) => list(value, nesting, size),
            (Holds::Named, Value::Object(named)) => {
                let nesting = if keyword == "properties" { nesting + 1 } else { 0 };
                named
                    .values()
                    .all(|value| value.as_object().is_some_and(|schema| subschema(schema, nesting, size)))
            }
            (Holds::Named, _) => false,
            (Holds::Data, _) => true,
        })
}

fn list(value: &Value, nesting: usize, size: &mut Size) -> bool {
    let mut schemas = value.as_array().into_iter().flatten();
    schemas.all(|value| value.as_object().is_some_and(|schema| subschema(schema, nesting, size)))
}

/// Whether nothing but the properties fits, and all of them are required.
fn is_closed(schema: &Map<String, Value>) -> bool {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return false };
    let required: Vec<_> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && required.len() == properties.len()
        && required.iter().all(|name| properties.contains_key(*name))
}

fn count(schema: &Map<String, Value>, size: &mut Size) {
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                size.properties += if keyword == "properties" { named.len() } else { 0 };
                size.text_bytes += named.keys().map(String::len).sum::<usize>();
            }
            ("enum", Value::Array(values)) => {
                size.enum_values += values.len();
                size.text_bytes += values.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
            }
            ("const", Value::String(text)) => size.text_bytes += text.len(),
            _ => {}
        }
    }
}
