//! The schema of the answer, and whether it is strict.

use super::*;

#[test]
fn a_strict_answer_is_asked_for_only_where_the_schema_is_strict() {
    let strict = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "pattern": "^a" },
            "items": { "type": "array", "items": { "$ref": "#/$defs/item" } },
            "or": { "anyOf": [{ "type": "string" }, { "type": "null" }] },
        },
        "required": ["items", "name", "or"],
        "additionalProperties": false,
        "$defs": { "item": { "type": "object", "properties": {}, "required": [], "additionalProperties": false } },
    });
    let format = |schema: Value| output_format(&OutputSchema::new(schema).unwrap(), true).unwrap();
    let given = format(strict.clone());
    assert_eq!(given, json!({ "type": "json_schema", "name": "answer", "strict": true, "schema": strict }));
    type Change = fn(&mut Value);
    let changes: [Change; 10] = [
        |schema| schema["required"] = json!(["items", "name"]),
        |schema| schema["additionalProperties"] = json!(true),
        |schema| schema["$defs"]["item"]["additionalProperties"] = json!({}),
        |schema| schema["properties"]["name"]["minLength"] = json!(1),
        |schema| schema["properties"]["name"]["format"] = json!("uri"),
        |schema| schema["properties"]["name"] = json!({}),
        |schema| schema["properties"]["items"]["items"] = json!(true),
        |schema| schema["properties"]["items"]["items"]["description"] = json!("x"),
        |schema| schema["properties"]["items"]["items"]["$ref"] = json!("#/properties/name"),
        |schema| schema["properties"]["name"]["default"] = json!("a"),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut loose = strict.clone();
        change(&mut loose);
        assert_eq!(format(loose)["strict"], false, "change {index}");
    }
}

#[test]
fn a_strict_schema_has_limits_of_size() {
    let strict = |schema: &Value| is_strict(schema.as_object().unwrap());
    let closed = |properties: Map<String, Value>| {
        let names: Vec<_> = properties.keys().cloned().collect();
        json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
    };
    let wide = |count: usize| {
        closed((0..count).map(|index| (index.to_string(), json!({ "type": "null" }))).collect())
    };
    assert!(strict(&wide(5_000)) && !strict(&wide(5_001)));
    let deep = |levels: usize| {
        (1..levels).fold(closed(Map::new()), |inner, _| closed(Map::from_iter([("p".to_owned(), inner)])))
    };
    assert!(strict(&deep(10)) && !strict(&deep(13)));
}

#[test]
fn the_server_is_told_the_schema_of_a_plain_object_alone() {
    let format = |schema: Value| output_format(&OutputSchema::new(schema).unwrap(), true);
    let object = json!({ "type": "object", "properties": {} });
    let referred = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/$defs/a", "$defs": { "a": object } });
    for schema in [object, referred] {
        assert_eq!(format(schema).unwrap()["schema"]["type"], "object");
    }
    let list = json!({ "type": "array", "items": { "type": "string" } });
    let union = json!({ "type": "object", "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] });
    for other in [list, union, json!({}), json!({ "type": ["object", "null"] })] {
        assert_eq!(format(other), None);
    }
}
