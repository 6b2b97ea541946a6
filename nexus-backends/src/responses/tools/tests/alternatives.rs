//! Alternatives and values below the root.

use super::*;

#[test]
fn alternatives_of_different_types_become_a_list_of_types_without_loss() {
    let schema = optional(json!({
        "description": "Where.",
        "anyOf": [
            { "type": "string", "minLength": 1 },
            { "type": "array", "items": { "type": "string" }, "maxItems": 3 },
            { "type": "null" },
        ],
    }));
    let expected = json!({
        "description": "Where.", "type": ["string", "array", "null"], "minLength": 1,
        "items": { "type": "string" }, "maxItems": 3,
    });
    assert_eq!(kept(&schema, &LEAST)["properties"]["p"], expected);
    assert_eq!(kept(&schema, &SchemaRules::OBJECT_ROOT), schema);
}

#[test]
fn described_values_become_one_list_with_their_words() {
    let schema = optional(json!({
        "oneOf": [
            { "type": "string", "const": "low", "description": "Quick." },
            { "type": "string", "enum": ["mid", "high"] },
        ],
    }));
    let expected =
        json!({ "type": "string", "enum": ["low", "mid", "high"], "description": "\"low\": Quick." });
    assert_eq!(kept(&schema, &LEAST)["properties"]["p"], expected);
}

#[test]
fn a_union_of_objects_may_stay_below_the_root() {
    let object = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    let schema = optional(json!({ "anyOf": [object("a"), object("b")] }));
    assert_eq!(kept(&schema, &LEAST), schema);
}

#[test]
fn alternatives_that_overlap_are_widened_and_told() {
    let schema = optional(json!({
        "anyOf": [{ "type": "string", "pattern": "^a" }, { "type": "string", "const": "b" }, { "type": "integer" }],
    }));
    let (projected, losses) = project(&schema, &LEAST);
    assert_eq!(
        projected["properties"]["p"],
        json!({ "type": ["string", "integer"], "description": "It may be \"b\"." })
    );
    let lost =
        "its alternatives are offered as one value of string or integer; what each of them asks is not told";
    assert_eq!(losses, [format!("at /properties/p/anyOf: {lost}")]);
}

#[test]
fn null_among_values_is_said_in_the_way_the_rules_leave() {
    let values = json!({ "type": ["string", "null"], "enum": ["a", "b", null] });
    let required =
        |property: Value| json!({ "type": "object", "properties": { "p": property }, "required": ["p"] });
    let unions = SchemaRules { null_in_enum: false, ..SchemaRules::OBJECT_ROOT };
    let apart = json!({ "anyOf": [{ "type": "string", "enum": ["a", "b"] }, { "type": "null" }] });
    assert_eq!(kept(&required(values.clone()), &unions)["properties"]["p"], apart);
    let (left_out, losses) = project(&optional(values.clone()), &LEAST);
    assert_eq!(left_out["properties"]["p"], json!({ "type": "string", "enum": ["a", "b"] }));
    assert_eq!(losses, ["at /properties/p: null is not offered; the property can be left out instead"]);
    let (in_words, losses) = project(&required(values), &LEAST);
    let told = json!({ "type": ["string", "null"], "description": "It is \"a\", \"b\" or null." });
    assert_eq!(in_words["properties"]["p"], told);
    assert_eq!(losses.len(), 1);
    let never = optional(json!({ "type": "string", "enum": ["a", null] }));
    assert_eq!(kept(&never, &LEAST)["properties"]["p"], json!({ "type": "string", "enum": ["a"] }));
}

#[test]
fn an_optional_choice_of_objects_loses_null_and_stays_a_choice() {
    let object = |name: &str| json!({ "type": "object", "properties": { name: { "type": "string" } } });
    let choice = json!({ "oneOf": [object("a"), object("b")] });
    let nullable = json!({ "description": "Which.", "anyOf": [choice, { "type": "null" }] });
    let (projected, losses) = project(&optional(nullable.clone()), &LEAST);
    let expected = json!({ "description": "Which.", "anyOf": [object("a"), object("b")] });
    assert_eq!(projected["properties"]["p"], expected);
    assert_eq!(losses, ["at /properties/p: null is not offered; the property can be left out instead"]);
    let mut required = optional(nullable);
    required["required"] = json!(["p"]);
    let (projected, losses) = project(&required, &LEAST);
    let both = json!({ "a": { "type": "string" }, "b": { "type": "string" } });
    assert_eq!(
        projected["properties"]["p"],
        json!({ "description": "Which.", "type": ["object", "null"], "properties": both })
    );
    assert_eq!(losses.len(), 1, "{losses:?}");
}

#[test]
fn words_about_values_stand_behind_those_about_the_whole() {
    let schema = json!({
        "description": "How fast.",
        "oneOf": [{ "const": "a", "description": "Slowly." }, { "enum": ["b", "c"], "description": "Others." }],
    });
    let expected = json!({
        "description": "How fast.\n\"a\": Slowly.\nOthers.", "type": "string", "enum": ["a", "b", "c"],
    });
    assert_eq!(kept(&optional(schema), &LEAST)["properties"]["p"], expected);
}
