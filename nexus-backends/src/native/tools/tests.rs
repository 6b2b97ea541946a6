use nexus_core::Effects;
use serde_json::Map;

use super::*;

mod answers;
mod properties;

fn project(schema: &Value) -> (Value, Option<&'static str>) {
    let (root, lost) = object_root(schema);
    (Value::Object(root), lost)
}

/// The root of a schema that loses nothing.
fn kept(schema: &Value) -> Value {
    let (projected, lost) = project(schema);
    assert_eq!(lost, None, "{schema}");
    projected
}

const WIDER: Option<&str> = Some("its root is offered as one object, which accepts more than the tool does");

/// A property `p` that is optional.
fn optional(property: Value) -> Value {
    let properties = Value::Object(Map::from_iter([("p".to_owned(), property)]));
    Value::Object(Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), properties),
    ]))
}

fn tool(name: &str, schema: Value) -> ToolDefinition {
    ToolDefinition::new(name, "Does it.", schema).with_effects(Effects::Read)
}

#[test]
fn a_plain_schema_is_offered_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string", "minLength": 1 }, "lines": { "type": ["integer", "null"] } },
        "required": ["path"],
        "additionalProperties": false,
    });
    let offer = offer(&[tool("read", schema.clone())], true);
    let function = json!({
        "type": "function", "name": "read", "description": "Does it.", "parameters": schema, "strict": false,
    });
    assert_eq!(offer, OfferedTools { tools: vec![function], warnings: Vec::new() });
}

#[test]
fn a_bad_name_or_a_second_one_is_left_out_and_the_others_are_offered() {
    let open = || json!({ "type": "object", "properties": {} });
    let names = ["a", "", "a b", "ä", "a", "b-B_9"];
    let mut definitions: Vec<_> = names.iter().map(|name| tool(name, open())).collect();
    definitions.push(tool(&"x".repeat(64), open()));
    definitions.push(tool(&"x".repeat(65), open()));
    let offer = offer(&definitions, true);
    let offered: Vec<_> = offer.tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(offered, ["a", "b-B_9", "x".repeat(64).as_str()]);
    assert_eq!(offer.warnings.len(), 5, "{:?}", offer.warnings);
    assert!(offer.warnings[1].starts_with("tool \"a b\" is not offered: its name"), "{:?}", offer.warnings);
    assert!(offer.warnings[3].contains("an earlier tool has its name"), "{:?}", offer.warnings);
}

#[test]
fn a_schema_that_says_nothing_is_an_empty_object() {
    let empty = json!({ "type": "object", "properties": {} });
    for nothing in
        [json!(true), json!(null), json!({}), json!({ "$schema": "http://json-schema.org/draft-07/schema#" })]
    {
        assert_eq!(kept(&nothing), empty);
    }
    for no_object in [json!(false), json!(7), json!("x"), json!([1]), json!({ "type": "string" })] {
        let lost = "arguments are always an object; the offered schema accepts any object";
        assert_eq!(project(&no_object), (empty.clone(), Some(lost)));
    }
}

#[test]
fn objects_get_properties_and_arrays_get_items() {
    let schema = optional(json!({ "type": "array", "minItems": 1 }));
    assert_eq!(kept(&schema)["properties"]["p"]["items"], json!({}));
    let map = optional(json!({ "type": "object", "additionalProperties": { "type": "integer" } }));
    assert_eq!(kept(&map)["properties"]["p"]["properties"], json!({}));
}

#[test]
fn a_choice_of_required_properties_at_the_root_is_told_as_lost() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "scope": { "type": "string" }, "project": { "type": "string" } },
        "required": ["project"],
        "anyOf": [{ "required": ["path"] }, { "required": ["scope"] }],
    });
    let (projected, losses) = project(&schema);
    let expected = json!({ "type": "object", "properties": schema["properties"], "required": ["project"] });
    assert_eq!(projected, expected);
    assert_eq!(losses, WIDER);
    let offer = offer(&[tool("find", schema)], true);
    assert_eq!(offer.warnings, [format!("tool \"find\": {}", WIDER.unwrap())]);
}

#[test]
fn a_tagged_union_at_the_root_keeps_every_tag() {
    let branch = |tag: &str, name: &str| {
        json!({
            "type": "object",
            "properties": { "kind": { "type": "string", "const": tag }, name: { "type": "number" } },
            "required": ["kind", name],
        })
    };
    let schema = json!({ "oneOf": [branch("circle", "radius"), { "oneOf": [branch("square", "side")] }, { "type": "null" }] });
    let (projected, losses) = project(&schema);
    let expected = json!({
        "type": "object",
        "properties": {
            "kind": { "type": "string", "enum": ["circle", "square"] },
            "radius": { "type": "number" },
            "side": { "type": "number" },
        },
        "required": ["kind"],
    });
    assert_eq!((projected, losses), (expected, WIDER));
}

#[test]
fn a_nullable_object_at_the_root_loses_nothing() {
    let object = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let nullable = json!({ "anyOf": [object, { "type": "null" }] });
    assert_eq!(kept(&nullable), object);
    let typed =
        json!({ "type": ["object", "null"], "properties": { "a": { "type": "string" } }, "required": ["a"] });
    assert_eq!(kept(&typed), object);
}

#[test]
fn what_all_of_several_say_at_the_root_is_said_together() {
    let schema = json!({
        "allOf": [
            { "$ref": "#/$defs/base" },
            { "properties": { "b": { "maximum": 9 }, "c": {} }, "required": ["c"] },
        ],
        "$defs": { "base": { "type": "object", "properties": { "b": { "type": "integer" } }, "required": ["b"] } },
    });
    let b = json!({ "allOf": [{ "type": "integer" }, { "maximum": 9 }] });
    let expected = json!({
        "type": "object",
        "properties": { "b": b, "c": {} },
        "required": ["b", "c"],
        "$defs": schema["$defs"],
    });
    assert_eq!(kept(&schema), expected);
}

#[test]
fn a_reference_at_the_root_is_replaced_by_what_it_leads_to() {
    let node = json!({
        "type": "object",
        "properties": { "next": { "$ref": "#/$defs/node" } },
        "required": ["next"],
        "additionalProperties": false,
    });
    let schema = json!({ "$schema": "x", "$ref": "#/$defs/node", "title": "T", "$defs": { "node": node } });
    let mut expected = node;
    expected["title"] = json!("T");
    expected["$defs"] = schema["$defs"].clone();
    assert_eq!(kept(&schema), expected);
}

#[test]
fn what_is_ruled_out_or_listed_at_the_root_is_lost() {
    for keyword in ["not", "const", "enum"] {
        let mut schema = optional(json!({}));
        let expected = schema.clone();
        schema[keyword] = json!([{ "p": 1 }]);
        assert_eq!(project(&schema), (expected, WIDER));
    }
}

#[test]
fn what_stands_below_the_root_stays_as_it_is() {
    let schema = optional(json!({
        "anyOf": [{ "$ref": "#/properties/q" }, { "type": ["string", "null"], "enum": ["a", null] }, { "not": {} }],
    }));
    assert_eq!(kept(&schema), schema);
}

#[test]
fn references_that_fan_out_or_go_round_end() {
    let mut definitions = Map::new();
    for index in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", index + 1) });
        definitions.insert(format!("d{index}"), json!({ "allOf": [next, next] }));
    }
    let fan = json!({ "allOf": [{ "$ref": "#/$defs/d0" }], "$defs": definitions });
    let round = json!({ "$ref": "#" });
    let deep = (0..500).fold(json!({}), |inner, _| json!({ "anyOf": [inner] }));
    for endless in [fan, round, deep] {
        let (projected, lost) = project(&endless);
        assert_eq!(projected["type"], "object");
        assert_eq!(lost, Some("no object fits its root; the offered schema accepts any object"));
    }
}

#[test]
fn what_fitted_before_fits_the_projection() {
    let pair = json!({ "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] });
    let cases = [
        (
            json!({ "oneOf": [pair, { "type": "object", "properties": { "b": {} }, "required": ["b"] }] }),
            json!({ "b": 1 }),
        ),
        (
            json!({ "anyOf": [{ "$ref": "#/$defs/x" }, { "type": "null" }], "$defs": { "x": pair } }),
            json!({ "a": 1 }),
        ),
    ];
    for (schema, value) in cases {
        OutputSchema::new(schema.clone()).unwrap().check(&value).unwrap();
        let projected = kept_or_wider(&schema);
        let fits = OutputSchema::new(projected.clone()).unwrap().check(&value);
        assert!(fits.is_ok(), "{value} does not fit {projected}: {fits:?}");
    }
}

fn kept_or_wider(schema: &Value) -> Value {
    let (projected, lost) = project(schema);
    assert!(lost.is_none() || lost == WIDER, "{schema}: {lost:?}");
    projected
}
