//! The schema of a tool's arguments: derives it from a type, and checks it before the tool is offered.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Map, Value, json};

use crate::json_schema::SchemaChecker;

/// Deepest nesting that is searched for an object type. Source: our own bound.
const MAX_DEPTH: usize = 32;

/// Returns the schema of `A` in its simplest form. Replaces references by their targets where possible. Leaves
/// out the names of the Rust type and of integer formats.
pub(crate) fn of<A: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    forget_number_formats(&mut schema);
    schema.to_value()
}

/// Removes formats such as `"int64"`, which JSON Schema does not define and which help no model.
fn forget_number_formats(schema: &mut Schema) {
    let is_number = |name: &Value| matches!(name.as_str(), Some("integer" | "number"));
    let numeric = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(is_number),
        Some(name) => is_number(name),
        None => false,
    };
    if numeric {
        schema.remove("format");
    }
    transform_subschemas(&mut forget_number_formats, schema);
}

/// Returns the schema of a tool without arguments.
pub(super) fn of_nothing() -> Value {
    json!({ "type": "object", "properties": {}, "additionalProperties": false })
}

/// Reason why a schema cannot describe a tool's arguments.
pub(super) enum Unfit {
    /// The value is not a JSON Schema.
    NotASchema(String),
    /// No object fits the schema, but arguments are always an object.
    NotAnObject,
}

/// Checks a schema, and adds `"type": "object"` unless the schema has a type. A derived schema has no
/// `checker`. For a hand-written schema, `checker` is its checker or the reason why the schema does not
/// compile.
pub(super) fn checked(
    schema: &mut Value,
    checker: Option<Result<SchemaChecker, String>>,
) -> Result<Option<SchemaChecker>, Unfit> {
    if matches!(schema, Value::Bool(true)) {
        *schema = Value::Object(Map::new());
    }
    if !schema.is_object() {
        return Err(match schema {
            Value::Bool(_) => Unfit::NotAnObject,
            _ => Unfit::NotASchema("it is neither an object nor a boolean".to_owned()),
        });
    }
    let checker = checker.transpose().map_err(Unfit::NotASchema)?;
    if !admits_object(schema, schema, MAX_DEPTH) {
        return Err(Unfit::NotAnObject);
    }
    if let Some(object) = schema.as_object_mut() {
        object.insert("type".to_owned(), json!("object"));
    }
    Ok(checker)
}

/// Returns true if an object may fit `schema`, as far as its shape shows.
fn admits_object(schema: &Value, root: &Value, depth: usize) -> bool {
    let Some(object) = schema.as_object() else {
        return schema.as_bool() != Some(false);
    };
    // Accept a deeper schema, because the arguments of every call are checked anyway.
    let Some(depth) = depth.checked_sub(1) else { return true };
    let inside = |schema: &Value| admits_object(schema, root, depth);
    let branches = |keyword: &str| object.get(keyword).and_then(Value::as_array);
    let by_type = match object.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "object"),
        Some(name) => name == "object",
        None => true,
    };
    let target = object.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#'));
    by_type
        && object.get("const").is_none_or(Value::is_object)
        && branches("enum").is_none_or(|values| values.iter().any(Value::is_object))
        && branches("anyOf").is_none_or(|list| list.iter().any(inside))
        && branches("oneOf").is_none_or(|list| list.iter().any(inside))
        && branches("allOf").is_none_or(|list| list.iter().all(inside))
        && target.and_then(|path| root.pointer(path)).is_none_or(inside)
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    fn checked(schema: &mut Value) -> Result<Option<SchemaChecker>, Unfit> {
        let checker = SchemaChecker::new(schema);
        super::checked(schema, Some(checker))
    }

    #[derive(PartialEq, Deserialize, JsonSchema)]
    struct Booking {
        /// The guests.
        guests: Vec<Guest>,
        nights: Option<u8>,
    }

    #[derive(PartialEq, Deserialize, JsonSchema)]
    struct Guest {
        name: String,
    }

    #[test]
    fn a_derived_schema_is_plain() {
        let guest =
            json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
        let expected = json!({
            "type": "object",
            "properties": {
                "guests": { "type": "array", "items": guest, "description": "The guests." },
                "nights": { "type": ["integer", "null"], "minimum": 0, "maximum": 255 },
            },
            "required": ["guests"],
        });
        assert_eq!(of::<Booking>(), expected);
    }

    #[test]
    fn a_schema_that_leaves_the_type_open_is_one_of_an_object() {
        for open in
            [json!(true), json!({}), json!({ "properties": {} }), json!({ "type": ["object", "null"] })]
        {
            let mut schema = open.clone();
            assert!(checked(&mut schema).is_ok(), "{open}");
            assert_eq!(schema["type"], "object", "{open}");
        }
    }

    #[test]
    fn a_schema_that_no_object_fits_is_found() {
        let text = json!({ "type": "string" });
        for shut in [
            json!(false),
            text.clone(),
            json!({ "type": ["string", "null"] }),
            json!({ "enum": [1, 2] }),
            json!({ "anyOf": [text, { "const": 3 }] }),
            json!({ "allOf": [{ "type": "object" }, { "type": "array" }] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "integer" } } }),
        ] {
            assert!(matches!(checked(&mut shut.clone()), Err(Unfit::NotAnObject)), "{shut}");
        }
    }

    #[test]
    fn a_union_with_one_object_branch_admits_an_object() {
        let mut schema = json!({ "anyOf": [{ "type": "object" }, { "type": "null" }] });
        assert!(checked(&mut schema).is_ok());
    }

    #[test]
    fn what_is_no_schema_is_told_with_its_place() {
        let mut broken = json!({ "type": "object", "properties": { "a": { "type": "nonsense" } } });
        let Err(Unfit::NotASchema(reason)) = checked(&mut broken) else { panic!("it was taken") };
        assert!(reason.contains("/properties/a/type"), "{reason}");
        assert!(matches!(checked(&mut json!(7)), Err(Unfit::NotASchema(_))));
        let mut elsewhere = json!({ "$ref": "https://example.invalid/schema.json" });
        assert!(matches!(checked(&mut elsewhere), Err(Unfit::NotASchema(_))));
    }

    #[test]
    fn a_schema_that_refers_to_itself_is_taken() {
        #[derive(PartialEq, Deserialize, JsonSchema)]
        struct Tree {
            children: BTreeMap<String, Tree>,
        }
        assert!(checked(&mut of::<Tree>()).is_ok());
        assert!(checked(&mut json!({ "$ref": "#" })).is_ok());
    }
}
