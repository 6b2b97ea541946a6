//! Declaration of a function in a request.

use serde_json::{Map, Value, json};

/// Converts a function of the Responses API.
pub(crate) fn declaration(tool: &Value) -> Value {
    let member = |name: &str| tool.get(name).cloned().unwrap_or_default();
    let mut declaration = json!({ "name": member("name"), "description": member("description") });
    if let Some(parameters) = parameters_schema(member("parameters")) {
        declaration["parametersJsonSchema"] = parameters;
    }
    declaration
}

/// Returns the schema of a function's parameters; `None` if the function has none. The API rejects an object without
/// properties, so an object that permits any member states that.
fn parameters_schema(parameters: Value) -> Option<Value> {
    let Value::Object(mut schema) = parameters else { return None };
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    let names_nothing = schema.iter().all(|(keyword, value)| match keyword.as_str() {
        "type" | "title" | "description" | "required" | "$defs" | "additionalProperties" => true,
        "properties" => is_empty(value),
        _ => false,
    });
    if !names_nothing {
        return Some(Value::Object(schema));
    }
    match schema.get("additionalProperties") {
        Some(Value::Bool(false)) => return None,
        None => drop(schema.insert("additionalProperties".to_owned(), Value::Bool(true))),
        Some(_) => {}
    }
    schema.remove("properties");
    schema.insert("type".to_owned(), json!("object"));
    Some(Value::Object(schema))
}
