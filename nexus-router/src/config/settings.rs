//! Checks a backend's settings against the schema of its kind: misspelled names and wrong types, with their
//! positions.
//!
//! It checks only names of keys, names in an `enum`, and the type of a value. No error quotes a secret that was
//! written in place of a mapping. The kind itself checks the values.

use serde_json::Value;

use super::{
    node::{Node, NodeValue},
    report::FoundProblems,
};

/// Reports names in `node` that `schema` does not have. `common` are keys that every backend has. Returns true
/// if all names are known.
pub(crate) fn names_are_known(
    node: &Node,
    schema: &Value,
    what: &str,
    common: &[&str],
    report: &mut FoundProblems,
) -> bool {
    if let Some(wanted) = schema.get("type").and_then(Value::as_str)
        && let Some(type_name) = other_type(&node.content, wanted)
    {
        report.add(node.position, format!("{what} must be {type_name}, but this is {}", node.kind()));
        return false;
    }
    match &node.content {
        NodeValue::Mapping(entries) => {
            let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
                return true;
            };
            let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
            let mut all_known = true;
            for (key, value) in entries {
                if common.contains(&key.text.as_str()) {
                    continue;
                }
                match properties.get(&key.text) {
                    Some(property) => {
                        let what = format!("{what}.{}", key.text);
                        // Check every setting, so that one load reports all unknown names.
                        all_known &= names_are_known(value, property, &what, &[], report);
                    }
                    None if is_closed => {
                        let valid = properties.keys().map(String::as_str).chain(common.iter().copied());
                        report.unknown(key.position, &format!("setting of {what}"), &key.text, valid);
                        all_known = false;
                    }
                    None => {}
                }
            }
            all_known
        }
        NodeValue::Text(text) => {
            let Some(choices) = schema.get("enum").and_then(Value::as_array) else {
                return true;
            };
            let is_known = choices.iter().any(|choice| choice.as_str() == Some(text));
            if !is_known {
                report.unknown(node.position, what, text, choices.iter().filter_map(Value::as_str));
            }
            is_known
        }
        _ => true,
    }
}

/// Returns a description of the expected type if the value has another type. An empty value is valid for a
/// backend without settings.
fn other_type(content: &NodeValue, wanted: &str) -> Option<&'static str> {
    let (fits, words) = match wanted {
        "object" => (matches!(content, NodeValue::Mapping(_) | NodeValue::Null), "a mapping"),
        "array" => (matches!(content, NodeValue::Sequence(_)), "a list"),
        "string" => (matches!(content, NodeValue::Text(_)), "text"),
        "boolean" => (matches!(content, NodeValue::Bool(_)), "true or false"),
        "number" => (matches!(content, NodeValue::Number(_)), "a number"),
        "integer" => (
            matches!(content, NodeValue::Number(number) if number.is_i64() || number.is_u64()),
            "a whole number",
        ),
        _ => return None,
    };
    (!fits).then_some(words)
}
