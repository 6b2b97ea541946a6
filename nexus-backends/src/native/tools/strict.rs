//! Recognises schemas that servers accept as strict.
//!
//! Source: the documentation of structured outputs. Every object is closed and requires every property, the root is a
//! plain object, and only a part of the vocabulary is allowed, with limits of size.

use serde_json::{Map, Value};

use super::object_root::types;

const MAX_PROPERTIES: usize = 5_000;
/// Maximum nesting of objects and arrays.
const MAX_NESTING: usize = 10;
const MAX_ENUM_VALUES: usize = 1_000;
/// Maximum total length of the names of properties and definitions, and of values.
const MAX_TEXT_BYTES: usize = 120_000;

/// Keywords that a strict schema may use. No tested server rejected `title`.
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

/// Text formats that a strict schema may name.
const FORMATS: [&str; 9] =
    ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uuid"];

#[derive(Debug, Default)]
struct Size {
    properties: usize,
    enum_values: usize,
    text_bytes: usize,
}

/// Returns true if servers accept `schema` as strict.
pub(super) fn is_strict(root: &Map<String, Value>) -> bool {
    let mut size = Size::default();
    types(root) == ["object"]
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
    if let Some(reference) = schema.get("$ref") {
        // A reference stands alone, because servers reject other keywords beside it.
        return schema.len() == 1 && reference.as_str().is_some_and(leads_to_definition);
    }
    let types = types(schema);
    if types.is_empty() && !schema.contains_key("anyOf") {
        return false;
    }
    count(schema, size);
    let mut is_schema = |value: &Value, nesting: usize| {
        value.as_object().is_some_and(|schema| subschema(schema, nesting, size))
    };
    let format = schema.get("format").and_then(Value::as_str);
    format.is_none_or(|format| FORMATS.contains(&format))
        && (!types.contains(&"object") || is_closed(schema))
        && (!types.contains(&"array") || schema.contains_key("items"))
        && schema.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
            ("items", value) => is_schema(value, nesting + 1),
            ("anyOf", Value::Array(list)) => list.iter().all(|value| is_schema(value, nesting)),
            ("properties", Value::Object(named)) => named.values().all(|value| is_schema(value, nesting + 1)),
            ("$defs" | "definitions", Value::Object(named)) => {
                // Definitions stand at the top level, so their nesting is counted from there.
                named.values().all(|value| is_schema(value, 0))
            }
            ("anyOf" | "properties" | "$defs" | "definitions", _) => false,
            _ => true,
        })
}

/// Returns true if a reference points to a top-level definition. Source: the error "reference can only point to
/// definitions defined at the top level of the schema".
fn leads_to_definition(reference: &str) -> bool {
    let name = ["#/$defs/", "#/definitions/"].iter().find_map(|place| reference.strip_prefix(place));
    reference == "#" || name.is_some_and(|name| !name.contains('/'))
}

/// Returns true if an object allows no other properties and requires all of its own.
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
