//! The subset of JSON Schema that the API knows.
//!
//! Source: the service definition, `GenerationConfig.response_json_schema`, for the keywords, and the guide to structured
//! output for the formats. Unknown keywords are left out, because a server may reject the whole request for one.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::references;
use crate::native::tools::OfferedTools;

/// Keywords that the API knows.
const KNOWN: [&str; 21] = [
    "$anchor",
    "$defs",
    "$id",
    "$ref",
    "additionalProperties",
    "anyOf",
    "description",
    "enum",
    "format",
    "items",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "oneOf",
    "prefixItems",
    "properties",
    "propertyOrdering",
    "required",
    "title",
    "type",
];

/// Keywords that constrain nothing, so their loss needs no warning.
const ANNOTATIONS: [&str; 10] = [
    "$comment",
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "writeOnly",
];

/// Formats that the API knows. A format is an annotation.
const FORMATS: [&str; 8] = ["date", "date-time", "double", "enum", "float", "int32", "int64", "time"];

/// Maximum depth of a schema. Source: the depth at which `serde_json` stops parsing.
const MAX_DEPTH: usize = 128;

/// Keeps what the API accepts of functions, and adds a warning for each loss.
pub(crate) fn restrict(offer: &mut OfferedTools) {
    let OfferedTools { tools, warnings } = offer;
    tools.retain_mut(|tool| {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            warnings.push(format!(
                "tool {name:?} is not offered: its name must begin with a letter or `_` at this server"
            ));
            return false;
        }
        if let Some(lost) = tool.get_mut("parameters").and_then(lost_keywords) {
            warnings.push(format!(
                "tool {name:?}: its schema is offered without {lost}, which the server does not know; the tool still \
                 checks its arguments"
            ));
        }
        true
    });
}

/// Keeps what the API accepts of an answer's format. Returns a warning about a loss.
pub(crate) fn restrict_format(format: &mut Value) -> Option<String> {
    let lost = format.get_mut("schema").and_then(lost_keywords)?;
    Some(format!(
        "the schema of the answer is sent without {lost}, which the server does not know; the answer is still checked"
    ))
}

/// Reduces a schema. Returns the keywords of lost constraints.
fn lost_keywords(schema: &mut Value) -> Option<String> {
    let mut lost = BTreeSet::new();
    let original = schema.clone();
    reduce(schema, MAX_DEPTH, &mut lost);
    references::update(schema, &original, &mut lost);
    let lost: Vec<String> = lost.into_iter().map(|keyword| format!("`{keyword}`")).collect();
    (!lost.is_empty()).then(|| lost.join(", "))
}

fn reduce(schema: &mut Value, depth: usize, lost: &mut BTreeSet<String>) {
    let Some(depth) = depth.checked_sub(1) else {
        *schema = json!({});
        return;
    };
    let Value::Object(members) = schema else {
        // `true` accepts everything, as an empty schema does.
        if schema == &Value::Bool(false) {
            lost.insert("false".to_owned());
        }
        *schema = json!({});
        return;
    };
    rename(members);
    // Without the patterns, the schema of all other members would also apply to the members that fit a pattern.
    let has_patterns = members.get("patternProperties").and_then(Value::as_object);
    if has_patterns.is_some_and(|patterns| !patterns.is_empty())
        && members.get("additionalProperties").is_some_and(|value| value != &Value::Bool(true))
    {
        members.remove("additionalProperties");
        lost.insert("additionalProperties".to_owned());
    }
    members.retain(|keyword, value| match keyword.as_str() {
        "enum" if !is_listable(value) => {
            lost.insert("enum".to_owned());
            false
        }
        "format" => value.as_str().is_some_and(|format| FORMATS.contains(&format)),
        known if KNOWN.contains(&known) => true,
        annotation if ANNOTATIONS.contains(&annotation) || annotation.starts_with("x-") => false,
        unknown => {
            lost.insert(unknown.to_owned());
            false
        }
    });
    if members.contains_key("$ref") {
        // The API allows no other member beside a reference.
        members.retain(|keyword, _| {
            let stays = keyword.starts_with('$');
            if !stays && !ANNOTATIONS.contains(&keyword.as_str()) && keyword != "title" {
                lost.insert(keyword.clone());
            }
            stays
        });
    }
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => {
                named.values_mut().for_each(|each| reduce(each, depth, lost));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().for_each(|each| reduce(each, depth, lost));
            }
            ("additionalProperties", Value::Bool(_)) => {}
            ("items" | "additionalProperties", value) => reduce(value, depth, lost),
            _ => {}
        }
    }
}

/// Writes keywords that have an equivalent as that.
fn rename(members: &mut Map<String, Value>) {
    // First, because the only schema of `allOf` may have keywords that the other steps rename. Each step removes one
    // level, so the loop ends.
    while let Some(Value::Array(list)) = members.get("allOf")
        && let [Value::Object(only)] = list.as_slice()
        && only.keys().all(|keyword| can_move(keyword, members))
    {
        let only = only.clone();
        members.remove("allOf");
        members.extend(only);
    }
    if let Some(value) = members.get("const").filter(|value| value.is_string() || value.is_number()) {
        let list = json!([value]);
        members.remove("const");
        members.insert("enum".to_owned(), list);
    }
    if members.get("items").is_some_and(Value::is_array)
        && let Some(list) = members.remove("items")
    {
        members.insert("prefixItems".to_owned(), list);
    }
    let names = references::merged_names(members);
    if let Some(Value::Object(mut definitions)) = members.remove("definitions")
        && let Value::Object(merged) = members.entry("$defs").or_insert_with(|| json!({}))
    {
        let moved = names.into_iter().filter_map(|(old, new)| Some((new, definitions.remove(&old)?)));
        merged.extend(moved);
    }
}

/// Returns true if a keyword of the only schema of `allOf` may move beside `members`. Definitions do not move, because
/// references lead to them.
fn can_move(keyword: &str, members: &Map<String, Value>) -> bool {
    match keyword {
        "allOf" => true,
        "$defs" | "definitions" => false,
        keyword => !members.contains_key(keyword),
    }
}

/// Returns true for a list of strings and numbers, which the API can express.
fn is_listable(values: &Value) -> bool {
    let is_plain = |value: &Value| value.is_string() || value.is_number();
    values.as_array().is_some_and(|list| list.iter().all(is_plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(mut schema: Value) -> (Value, Option<String>) {
        let lost = lost_keywords(&mut schema);
        (schema, lost)
    }

    #[test]
    fn a_schema_is_reduced_to_what_the_api_knows_and_each_loss_is_named() {
        for (schema, sent, lost) in [
            (
                json!({ "type": "string", "format": "uri", "default": "a", "x-y": 1 }),
                json!({ "type": "string" }),
                None,
            ),
            (
                json!({ "type": "integer", "format": "int32" }),
                json!({ "type": "integer", "format": "int32" }),
                None,
            ),
            (json!({ "const": "a" }), json!({ "enum": ["a"] }), None),
            (json!({ "const": null }), json!({}), Some("`const`")),
            (json!({ "enum": ["a", null] }), json!({}), Some("`enum`")),
            (json!({ "pattern": "a", "minLength": 1 }), json!({}), Some("`minLength`, `pattern`")),
            (
                json!({ "properties": { "pattern": { "type": "array", "items": { "multipleOf": 2 } } } }),
                json!({ "properties": { "pattern": { "type": "array", "items": {} } } }),
                Some("`multipleOf`"),
            ),
            (
                json!({ "description": "d", "allOf": [{ "$ref": "#/definitions/a" }], "definitions": { "a": true } }),
                json!({ "$ref": "#/$defs/a", "$defs": { "a": {} } }),
                None,
            ),
            (json!({ "allOf": [{ "type": "string" }, {}] }), json!({}), Some("`allOf`")),
            (json!({ "allOf": [{ "const": "a" }] }), json!({ "enum": ["a"] }), None),
            (json!({ "allOf": [{ "allOf": [{ "items": [true] }] }] }), json!({ "prefixItems": [{}] }), None),
            (
                json!({ "type": "string", "allOf": [{ "type": "string" }] }),
                json!({ "type": "string" }),
                Some("`allOf`"),
            ),
            (json!({ "$ref": "#", "minimum": 1 }), json!({ "$ref": "#" }), Some("`minimum`")),
            (json!({ "items": { "$ref": "#/$defs/a" } }), json!({ "items": {} }), Some("`$ref`")),
            (
                json!({
                    "$defs": { "Id": { "type": "string" } }, "definitions": { "Id": { "type": "integer" } },
                    "properties": { "id": { "$ref": "#/definitions/Id" } },
                }),
                json!({
                    "$defs": { "Id": { "type": "string" }, "definitions_Id": { "type": "integer" } },
                    "properties": { "id": { "$ref": "#/$defs/definitions_Id" } },
                }),
                None,
            ),
            (
                json!({ "patternProperties": { "^x": {} }, "properties": {}, "additionalProperties": false }),
                json!({ "properties": {} }),
                Some("`additionalProperties`, `patternProperties`"),
            ),
            (
                json!({ "patternProperties": { "^x": {} }, "additionalProperties": true }),
                json!({ "additionalProperties": true }),
                Some("`patternProperties`"),
            ),
            (
                json!({ "items": [{ "type": "string" }, false] }),
                json!({ "prefixItems": [{ "type": "string" }, {}] }),
                Some("`false`"),
            ),
            (
                json!({ "additionalProperties": false, "anyOf": [{ "not": {} }] }),
                json!({ "additionalProperties": false, "anyOf": [{}] }),
                Some("`not`"),
            ),
        ] {
            assert_eq!(reduced(schema.clone()), (sent, lost.map(str::to_owned)), "{schema}");
        }
    }

    #[test]
    fn a_schema_of_any_depth_ends() {
        let mut deep = json!({});
        for _ in 0..2 * MAX_DEPTH {
            deep = json!({ "items": deep });
        }
        assert_eq!(reduced(deep).1, None);
    }

    #[test]
    fn a_name_that_the_server_refuses_is_not_offered() {
        let tool = |name: &str| json!({ "type": "function", "name": name, "parameters": { "not": {} } });
        let mut offer = OfferedTools {
            tools: vec![tool("add"), tool("2add"), tool("-a"), tool("_a")],
            warnings: Vec::new(),
        };
        restrict(&mut offer);
        let names: Vec<&str> = offer.tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["add", "_a"]);
        assert_eq!(offer.warnings.len(), 4);
        assert!(offer.warnings[0].contains("without `not`") && offer.warnings[1].contains("letter"));
    }
}
