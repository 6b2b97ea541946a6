//! References: spelled out, cut, or leading nowhere.

use super::*;

#[test]
fn references_are_spelled_out_where_they_are_not_taken() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "$ref": "#/$defs/Pair%3Cint%3E", "description": "The first." }, "b": { "$ref": "#/definitions/n" } },
        "$defs": { "Pair<int>": { "type": "array", "items": { "$ref": "#/definitions/n" } } },
        "definitions": { "n": { "type": "integer" } },
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "a": { "type": "array", "items": { "type": "integer" }, "description": "The first." },
            "b": { "type": "integer" },
        },
    });
    assert_eq!(kept(&schema, &SchemaRules::INLINED), expected);
    assert_eq!(kept(&schema, &SchemaRules::PLAIN_UNIONS), schema);
}

#[test]
fn a_reference_into_the_middle_is_spelled_out_for_servers_that_follow_definitions_alone() {
    let schema = json!({
        "type": "object",
        "properties": { "a": { "type": "string", "minLength": 2 }, "b": { "$ref": "#/properties/a" } },
    });
    let projected = kept(&schema, &SchemaRules::OBJECT_ROOT);
    assert_eq!(projected["properties"]["b"], schema["properties"]["a"]);
    assert_eq!(kept(&schema, &SchemaRules::ANY), schema);
}

#[test]
fn a_schema_that_contains_itself_is_cut_with_a_note() {
    let tree = json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
    });
    let (projected, losses) = project(&tree, &SchemaRules::INLINED);
    let inner = json!({ "type": "object", "properties": {}, "description": "As # once more." });
    assert_eq!(projected["properties"]["children"]["items"], inner);
    let lost =
        "at /properties/children/items: # contains itself or is too large, and is not spelled out here";
    assert_eq!(losses, [lost]);
    assert_eq!(kept(&tree, &SchemaRules::PLAIN_UNIONS), tree);
}

#[test]
fn a_reference_that_leads_nowhere_admits_anything() {
    for nowhere in
        ["#/$defs/none", "other.json", "https://example.invalid/a", "#/properties", "#anchor", "#/%zz"]
    {
        for rules in [SchemaRules::ANY, LEAST] {
            let (projected, losses) = project(&optional(json!({ "$ref": nowhere })), &rules);
            assert_eq!(projected["properties"]["p"], json!({}), "{nowhere}");
            assert_eq!(losses.len(), 1, "{nowhere}: {losses:?}");
        }
    }
}
