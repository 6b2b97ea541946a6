use nexus_core::Effects;
use serde_json::Map;

use super::keywords::for_each_subschema;
use super::*;

mod alternatives;
mod answers;
mod properties;
mod references;

/// The least that any server could take.
const LEAST: SchemaRules =
    SchemaRules { root_composition: false, non_object_unions: false, null_in_enum: false, references: false };

fn project(schema: &Value, rules: &SchemaRules) -> (Value, Vec<String>) {
    let (projected, losses) = projection::project(schema, rules);
    (projected, losses.iter().map(Loss::to_string).collect())
}

/// The projection of a schema that loses nothing.
fn kept(schema: &Value, rules: &SchemaRules) -> Value {
    let (projected, losses) = project(schema, rules);
    assert_eq!(losses, Vec::<String>::new(), "{schema}");
    projected
}

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
    for rules in [SchemaRules::ANY, SchemaRules::OBJECT_ROOT, SchemaRules::PLAIN_UNIONS, LEAST] {
        let offer = offer(&[tool("read", schema.clone())], &rules);
        let function = json!({
            "type": "function", "name": "read", "description": "Does it.", "parameters": schema, "strict": false,
        });
        assert_eq!(offer, Offer { tools: vec![function], warnings: Vec::new() });
    }
}

#[test]
fn a_bad_name_or_a_second_one_is_left_out_and_the_others_are_offered() {
    let open = || json!({ "type": "object", "properties": {} });
    let names = ["a", "", "a b", "ä", "a", "b-B_9"];
    let mut definitions: Vec<_> = names.iter().map(|name| tool(name, open())).collect();
    definitions.push(tool(&"x".repeat(64), open()));
    definitions.push(tool(&"x".repeat(65), open()));
    let offer = offer(&definitions, &SchemaRules::OBJECT_ROOT);
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
        assert_eq!(kept(&nothing, &SchemaRules::OBJECT_ROOT), empty);
    }
    for garbage in [json!(false), json!(7), json!("x"), json!([1])] {
        let (projected, losses) = project(&garbage, &SchemaRules::OBJECT_ROOT);
        assert_eq!(projected, empty);
        assert_eq!(losses.len(), 1, "{losses:?}");
    }
    let (projected, losses) = project(&json!({ "type": "string" }), &SchemaRules::OBJECT_ROOT);
    assert_eq!(projected, empty);
    assert_eq!(losses, ["at /type: arguments are always an object, not string"]);
}

#[test]
fn objects_get_properties_and_arrays_get_items() {
    let schema = optional(json!({ "type": "array", "minItems": 1 }));
    assert_eq!(kept(&schema, &SchemaRules::ANY)["properties"]["p"]["items"], json!({}));
    let map = optional(json!({ "type": "object", "additionalProperties": { "type": "integer" } }));
    assert_eq!(kept(&map, &SchemaRules::ANY)["properties"]["p"]["properties"], json!({}));
}

#[test]
fn a_choice_of_required_properties_at_the_root_is_told_as_lost() {
    let schema = json!({
        "type": "object",
        "properties": { "path": { "type": "string" }, "scope": { "type": "string" }, "project": { "type": "string" } },
        "required": ["project"],
        "anyOf": [{ "required": ["path"] }, { "required": ["scope"] }],
    });
    let (projected, losses) = project(&schema, &SchemaRules::OBJECT_ROOT);
    let expected = json!({ "type": "object", "properties": schema["properties"], "required": ["project"] });
    assert_eq!(projected, expected);
    let lost =
        "at /anyOf: its 2 alternatives are offered as one object; which properties go together is not told";
    assert_eq!(losses, [lost]);
    let offer = offer(&[tool("find", schema.clone())], &SchemaRules::OBJECT_ROOT);
    assert_eq!(offer.warnings, [format!("tool \"find\": {lost}")]);
    assert_eq!(kept(&schema, &SchemaRules::ANY), schema);
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
    let (projected, losses) = project(&schema, &SchemaRules::OBJECT_ROOT);
    let expected = json!({
        "type": "object",
        "properties": {
            "kind": { "type": "string", "enum": ["circle", "square"] },
            "radius": { "type": "number" },
            "side": { "type": "number" },
        },
        "required": ["kind"],
    });
    assert_eq!(projected, expected);
    assert_eq!(losses.len(), 1, "{losses:?}");
}

#[test]
fn a_nullable_object_at_the_root_loses_nothing() {
    let object = json!({ "type": "object", "properties": { "a": { "type": "string" } }, "required": ["a"] });
    let nullable = json!({ "anyOf": [object, { "type": "null" }] });
    assert_eq!(kept(&nullable, &SchemaRules::OBJECT_ROOT), object);
    let typed =
        json!({ "type": ["object", "null"], "properties": { "a": { "type": "string" } }, "required": ["a"] });
    assert_eq!(kept(&typed, &SchemaRules::OBJECT_ROOT), object);
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
    let expected = json!({
        "type": "object",
        "properties": { "b": { "type": "integer", "maximum": 9 }, "c": {} },
        "required": ["b", "c"],
    });
    assert_eq!(kept(&schema, &LEAST), expected);
    let with_references = kept(&schema, &SchemaRules::OBJECT_ROOT);
    assert_eq!(with_references["properties"], expected["properties"]);
    assert!(with_references["$defs"]["base"].is_object());
}

#[test]
fn values_and_exclusions_at_the_root_become_properties_or_a_warning() {
    let values = json!({ "enum": [{ "a": 1, "b": 2 }, { "a": 3 }, 4] });
    let (projected, losses) = project(&values, &SchemaRules::OBJECT_ROOT);
    let a = json!({ "type": "number", "enum": [1, 3] });
    assert_eq!(
        projected,
        json!({ "type": "object", "properties": { "a": a, "b": { "const": 2 } }, "required": ["a"] })
    );
    assert_eq!(losses.len(), 1);
    let not = json!({ "type": "object", "properties": {}, "not": { "required": ["x"] } });
    assert_eq!(project(&not, &SchemaRules::OBJECT_ROOT).1, ["at /not: what is ruled out is not told"]);
}

#[test]
fn what_is_malformed_is_left_out_and_the_rest_stays() {
    let schema = json!({
        "type": "object",
        "properties": { "a": 7, "b": { "type": "strnig", "enum": [] }, "c": { "type": "array", "items": "x" }, "d": { "type": "string" } },
        "required": "a",
        "anyOf": [],
    });
    let (projected, losses) = project(&schema, &SchemaRules::ANY);
    let expected = json!({
        "type": "object",
        "properties": { "a": {}, "b": {}, "c": { "type": "array", "items": {} }, "d": { "type": "string" } },
    });
    assert_eq!(projected, expected);
    assert_eq!(losses.len(), 6, "{losses:?}");
    let warnings = offer(&[tool("t", schema)], &SchemaRules::ANY).warnings;
    assert_eq!(warnings.len(), 6);
    let many: Map<_, _> = (0..40).map(|index| (format!("p{index}"), json!(7))).collect();
    let warnings = offer(&[tool("t", json!({ "properties": many }))], &SchemaRules::ANY).warnings;
    assert_eq!(warnings.len(), MAX_TOLD + 1);
    assert_eq!(warnings[MAX_TOLD], "tool \"t\": 34 more places are offered wider than they are");
}

#[test]
fn a_small_schema_does_not_become_a_huge_one() {
    let mut definitions = Map::new();
    for index in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/d{}", index + 1) });
        definitions
            .insert(format!("d{index}"), json!({ "type": "object", "properties": { "a": next, "b": next } }));
    }
    definitions.insert("d40".to_owned(), json!({ "type": "string" }));
    let nested =
        json!({ "type": "object", "properties": { "p": { "$ref": "#/$defs/d0" } }, "$defs": definitions });
    let (projected, losses) = project(&nested, &LEAST);
    assert!(projected.to_string().len() < 2_000_000 && !losses.is_empty());
    let branches = json!([{ "$ref": "#" }, { "$ref": "#/$defs/a" }, { "type": "string" }]);
    let cyclic = json!({ "anyOf": branches, "$defs": { "a": { "anyOf": branches } }, "properties": { "p": { "anyOf": branches } } });
    for rules in [SchemaRules::OBJECT_ROOT, SchemaRules::PLAIN_UNIONS, LEAST] {
        let (projected, losses) = project(&cyclic, &rules);
        assert!(projected.to_string().len() < 100_000 && !losses.is_empty());
    }
    let deep = (0..500).fold(json!({ "type": "string" }), |inner, _| optional(inner));
    assert!(project(&deep, &SchemaRules::ANY).1[0].contains("too deep"));
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
        (
            optional(
                json!({ "oneOf": [{ "type": "integer", "minimum": 5 }, { "type": "number", "maximum": 1 }] }),
            ),
            json!({ "p": 0.5 }),
        ),
        (
            optional(
                json!({ "anyOf": [{ "type": "string", "const": "x" }, { "type": "string", "minLength": 4 }] }),
            ),
            json!({ "p": "long" }),
        ),
        (optional(json!({ "anyOf": [{ "minLength": 4 }, { "type": "null" }] })), json!({ "p": [1] })),
        (
            optional(
                json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "array", "maxItems": 0 }] }),
            ),
            json!({ "p": ["a"] }),
        ),
        (
            json!({ "properties": { "n": { "$ref": "#" }, "v": { "type": ["string", "null"], "enum": ["a", null] } }, "required": ["v"] }),
            json!({ "n": { "v": "a" }, "v": null }),
        ),
    ];
    for (schema, value) in cases {
        OutputSchema::new(schema.clone()).unwrap().check(&value).unwrap();
        for rules in [SchemaRules::OBJECT_ROOT, SchemaRules::PLAIN_UNIONS, SchemaRules::INLINED, LEAST] {
            let projected = project(&schema, &rules).0;
            let fits = OutputSchema::new(projected.clone()).unwrap().check(&value);
            assert!(fits.is_ok(), "{value} does not fit {projected}: {fits:?}");
        }
    }
}
