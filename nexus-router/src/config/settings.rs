//! A backend's settings against the schema that its kind declares: slips in names, with their places.
//!
//! Only names are judged, those of keys and those of an `enum`. Whether the values fit is the kind's to say.

use serde_json::Value;

use super::{
    node::{Content, Node},
    report::Report,
};

/// Reports names in `node` that `schema` does not have. `common` are keys that every backend has.
/// Says whether all were known.
pub(crate) fn names_are_known(
    node: &Node,
    schema: &Value,
    what: &str,
    common: &[&str],
    report: &mut Report,
) -> bool {
    match &node.content {
        Content::Mapping(entries) => {
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
        Content::Text(text) => {
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
