//! Schemas of arguments and answers in a form for clients, and errors about arguments that do not fit their schema.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::service::JsonObject;

/// Returns the schema of a tool's arguments.
pub fn of_arguments<T: JsonSchema + DeserializeOwned>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema =
        cleaned(settings.for_deserialize().into_generator().into_root_schema_for::<T>().to_value());
    // `null` is accepted for a missing argument, but the schema need not offer it.
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|all| all.values_mut()).for_each(without_null);
    schema
}

/// Removes the alternative `null` from an optional property.
fn without_null(property: &mut Value) {
    let Value::Object(property) = property else { return };
    if let Some(Value::Array(kinds)) = property.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = &kinds[..] {
            let kind = kind.clone();
            property.insert("type".to_owned(), kind);
        }
    }
    let Some(Value::Array(alternatives)) = property.get_mut("anyOf") else { return };
    alternatives.retain(|alternative| alternative["type"] != "null");
    if let [Value::Object(only)] = &mut alternatives[..] {
        let mut only = std::mem::take(only);
        // The property's own description is more specific than that of its type.
        for (name, value) in std::mem::take(property) {
            if name != "anyOf" {
                only.insert(name, value);
            }
        }
        *property = only;
    }
}

/// Returns the schema of a tool's answer.
pub fn of_answer<T: JsonSchema + Serialize>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    cleaned(settings.for_serialize().into_generator().into_root_schema_for::<T>().to_value())
}

/// Removes details that some clients reject or that no model needs: number formats that JSON Schema does not define, names of
/// types, and the top-level description. The tool has its own description.
fn cleaned(mut schema: Value) -> Value {
    clean(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.remove("$schema");
        root.remove("description");
    }
    schema
}

fn clean(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            // Remove these keywords only if they are texts: a schema here is a property with that name.
            for keyword in ["format", "title"] {
                if object.get(keyword).is_some_and(Value::is_string) {
                    object.remove(keyword);
                }
            }
            object.values_mut().for_each(clean);
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        _ => {}
    }
}

/// Reads a tool's arguments.
///
/// # Errors
///
/// The fault and the tool's arguments, in words for the model.
pub fn read<T: JsonSchema + DeserializeOwned>(tool: &str, arguments: JsonObject) -> Result<T, String> {
    let arguments = Value::Object(arguments);
    serde_path_to_error::deserialize(&arguments).map_err(|error| {
        let place = error.path().to_string();
        let at = if place == "." { String::new() } else { format!(" at `{place}`") };
        let mut problem = error.inner().to_string();
        if problem.len() > MOST_PROBLEM_BYTES {
            problem.truncate(problem.floor_char_boundary(MOST_PROBLEM_BYTES));
            problem.push('…');
        }
        let taken = taken(&of_arguments::<T>());
        format!(
            "the arguments of {tool} cannot be used{at}: {problem}. It accepts {taken}. Nothing was \
            done: correct them, and call it again"
        )
    })
}

/// Longest fault in an answer, in bytes. The fault may repeat text of the caller.
const MOST_PROBLEM_BYTES: usize = 500;

/// Returns the arguments of a schema with their types, for a message.
fn taken(schema: &Value) -> String {
    let required = |name: &String| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|required| required == name))
    };
    let kind = |property: &Value| match &property["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds = kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null");
            kinds.collect::<Vec<_>>().join(" or ")
        }
        _ => "object".to_owned(),
    };
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        return "no arguments".to_owned();
    };
    let described = properties.iter().map(|(name, property)| {
        let needed = if required(name) { ", required" } else { "" };
        format!("`{name}` ({}{needed})", kind(property))
    });
    described.collect::<Vec<_>>().join(", ")
}
