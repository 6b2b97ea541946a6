//! Function of a tool in a request.

use serde_json::{Value, json};

/// Converts a function of the Responses API. The flag `strict` is left out, because its default is false on this wire.
pub(crate) fn function(tool: &Value) -> Value {
    let member = |name: &str| tool.get(name).cloned().unwrap_or_default();
    let (name, description, parameters) = (member("name"), member("description"), member("parameters"));
    json!({
        "type": "function",
        "function": { "name": name, "description": description, "parameters": parameters },
    })
}
