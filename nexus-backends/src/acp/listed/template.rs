//! Texts of a row in which words in braces stand for values of a turn.

use serde_json::{Map, Value};

/// Placeholder of the lent key.
pub(super) const KEY: &str = "{key}";
/// Placeholder of the model.
pub(super) const MODEL: &str = "{model}";

/// Values of the placeholders.
#[derive(Clone, Copy)]
pub(super) struct TemplateValues<'a> {
    pub(super) base_url: &'a str,
    pub(super) key: &'a str,
    pub(super) model: &'a str,
}

/// Replaces the placeholders in a text. A value is never searched for placeholders itself.
pub(super) fn fill_text(text: &str, values: &TemplateValues<'_>) -> String {
    let placeholders = [("{base_url}", values.base_url), (KEY, values.key), (MODEL, values.model)];
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(start) = rest.find('{') {
        let (before, from) = rest.split_at(start);
        filled.push_str(before);
        match placeholders.iter().find(|(name, _)| from.starts_with(name)) {
            Some((name, value)) => {
                filled.push_str(value);
                rest = &from[name.len()..];
            }
            None => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled + rest
}

/// Replaces the placeholders in all keys and texts of a value.
pub(super) fn fill(value: &Value, values: &TemplateValues<'_>) -> Value {
    match value {
        Value::String(text) => Value::String(fill_text(text, values)),
        Value::Array(items) => items.iter().map(|item| fill(item, values)).collect(),
        Value::Object(members) => {
            let filled = members.iter().map(|(key, value)| (fill_text(key, values), fill(value, values)));
            Value::Object(filled.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Returns true if a value names the model.
pub(super) fn names_model(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MODEL),
        Value::Array(items) => items.iter().any(names_model),
        Value::Object(members) => {
            members.iter().any(|(key, value)| key.contains(MODEL) || names_model(value))
        }
        _ => false,
    }
}
