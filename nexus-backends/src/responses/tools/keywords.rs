//! The vocabulary of JSON Schema, as far as a projection must know it: where subschemas stand, and for which
//! type of value a keyword speaks.

use serde_json::{Map, Value};

/// Longest piece of a caller's text that is repeated in a warning, in bytes.
const MAX_TOLD_BYTES: usize = 120;

/// The seven types of a JSON value.
pub(super) const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "object", "array", "null"];

/// What stands behind a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// One subschema, or a list of them.
    Schema,
    /// Subschemas by name.
    Named,
    /// A list of subschemas, not empty.
    List,
    /// No subschema.
    Data,
}

/// What stands behind `keyword`.
pub(super) fn holds(keyword: &str) -> Holds {
    match keyword {
        "additionalItems"
        | "additionalProperties"
        | "contains"
        | "contentSchema"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => Holds::Schema,
        "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties"
        | "properties" => Holds::Named,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        _ => Holds::Data,
    }
}

/// The type of value that `keyword` speaks of: it says nothing about a value of another type.
pub(super) fn speaks_of(keyword: &str) -> Option<&'static str> {
    Some(match keyword {
        "contentEncoding" | "contentMediaType" | "contentSchema" | "format" | "maxLength" | "minLength"
        | "pattern" => "string",
        "exclusiveMaximum" | "exclusiveMinimum" | "maximum" | "minimum" | "multipleOf" => "number",
        "additionalItems" | "contains" | "items" | "maxContains" | "maxItems" | "minContains"
        | "minItems" | "prefixItems" | "unevaluatedItems" | "uniqueItems" => "array",
        "additionalProperties"
        | "dependencies"
        | "dependentRequired"
        | "dependentSchemas"
        | "maxProperties"
        | "minProperties"
        | "patternProperties"
        | "properties"
        | "propertyNames"
        | "required"
        | "unevaluatedProperties" => "object",
        _ => return None,
    })
}

/// Whether `keyword` describes a value without saying what it may be.
pub(super) fn is_annotation(keyword: &str) -> bool {
    matches!(
        keyword,
        "$comment"
            | "default"
            | "deprecated"
            | "description"
            | "examples"
            | "readOnly"
            | "title"
            | "writeOnly"
    ) || keyword.starts_with("x-")
}

/// The type of `value`; a whole number is a `number` here.
pub(super) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The types that a schema's `type` names; empty if it names none.
pub(super) fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Writes the types that a schema names: one as a string, several as a list, none not at all.
pub(super) fn set_types(schema: &mut Map<String, Value>, types: &[&str]) {
    match types {
        [] => schema.remove("type"),
        [one] => schema.insert("type".to_owned(), Value::from(*one)),
        several => schema.insert("type".to_owned(), Value::from(several)),
    };
}

/// Shows each subschema of `schema`, with its place below `place`.
pub(super) fn for_each_subschema(
    schema: &mut Map<String, Value>,
    place: &str,
    mut show: impl FnMut(&mut Value, &str),
) {
    for (keyword, value) in schema {
        match (holds(keyword), value) {
            (Holds::Schema, value @ (Value::Object(_) | Value::Bool(_))) => {
                show(value, &below(place, keyword));
            }
            (Holds::Schema | Holds::List, Value::Array(list)) => {
                let place = below(place, keyword);
                list.iter_mut()
                    .enumerate()
                    .for_each(|(index, value)| show(value, &format!("{place}/{index}")));
            }
            (Holds::Named, Value::Object(named)) => {
                let place = below(place, keyword);
                // An array there is a list of names, of the old `dependencies`.
                let schemas = named.iter_mut().filter(|(_, value)| !value.is_array());
                schemas.for_each(|(name, value)| show(value, &below(&place, name)));
            }
            _ => {}
        }
    }
}

/// The JSON Pointer of `name` below `place`.
pub(super) fn below(place: &str, name: &str) -> String {
    format!("{place}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// A caller's text, cut to what a warning can carry.
pub(super) fn shortened(text: &str) -> String {
    if text.len() <= MAX_TOLD_BYTES {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX_TOLD_BYTES)])
}

/// Adds a sentence to a schema's description.
pub(super) fn describe(schema: &mut Map<String, Value>, sentence: &str) {
    let text = match schema.get("description").and_then(Value::as_str) {
        Some(text) if !text.trim().is_empty() => format!("{}\n{sentence}", text.trim_end()),
        _ => sentence.to_owned(),
    };
    schema.insert("description".to_owned(), Value::from(text));
}
