//! Tool in a request.

use serde_json::{Value, json};

/// Converts a function of the Responses API.
pub(crate) fn tool(tool: &Value) -> Value {
    let member = |name: &str| tool.get(name).cloned().unwrap_or_default();
    let (name, description, schema) = (member("name"), member("description"), member("parameters"));
    json!({ "name": name, "description": description, "input_schema": schema })
}
