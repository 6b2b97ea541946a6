//! Schemas of arguments and answers, as clients can read them; and arguments that do not fit theirs.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::service::JsonObject;

/// The schema of a tool's arguments.
pub fn of_arguments<T: JsonSchema + DeserializeOwned>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema =
        cleaned(settings.for_deserialize().into_generator().into_root_schema_for::<T>().to_value());
    // `null` is accepted in place of a missing argument, but the schema need not offer it.
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(|all| all.values_mut()).for_each(without_null);
    schema
}

/// An optional property without the alternative `null`.
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

/// The schema of a tool's answer.
pub fn of_answer<T: JsonSchema + Serialize>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    cleaned(settings.for_serialize().into_generator().into_root_schema_for::<T>().to_value())
}

/// Without what some clients stumble over or no model needs: formats of numbers that JSON Schema does not know, names of types, and
/// the description of the whole, which is the tool's.
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
            // A property may have these names as well; those are schemas, and these are texts.
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
/// What is wrong with them, and what they are, in words for the model.
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

/// Longest problem in an answer: it repeats text of the caller.
const MOST_PROBLEM_BYTES: usize = 500;

/// The arguments that a schema names, with their types.
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
