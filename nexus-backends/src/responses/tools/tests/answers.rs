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
    let format =
        |schema: Value| output_format(&OutputSchema::new(schema).unwrap(), &SchemaRules::OBJECT_ROOT);
    let (given, warnings) = format(strict.clone());
    assert_eq!(given, json!({ "type": "json_schema", "name": "answer", "strict": true, "schema": strict }));
    assert_eq!(warnings, Vec::<String>::new());
    type Change = fn(&mut Value);
    let changes: [Change; 9] = [
        |schema| schema["required"] = json!(["items", "name"]),
        |schema| schema["additionalProperties"] = json!(true),
        |schema| schema["$defs"]["item"]["additionalProperties"] = json!({}),
        |schema| schema["properties"]["name"]["minLength"] = json!(1),
        |schema| schema["properties"]["name"]["format"] = json!("uri"),
        |schema| schema["properties"]["name"] = json!({}),
        |schema| schema["properties"]["items"]["items"] = json!(true),
        |schema| schema["properties"]["items"]["items"]["description"] = json!("x"),
        |schema| schema["properties"]["name"]["default"] = json!("a"),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut loose = strict.clone();
        change(&mut loose);
        assert_eq!(format(loose).0["strict"], false, "change {index}");
    }
}

#[test]
fn a_strict_schema_has_limits_of_size() {
    let closed = |properties: Map<String, Value>| {
        let names: Vec<_> = properties.keys().cloned().collect();
        json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
    };
    let wide = |count: usize| {
        closed((0..count).map(|index| (index.to_string(), json!({ "type": "null" }))).collect())
    };
    assert!(is_strict(&wide(5_000)) && !is_strict(&wide(5_001)));
    let deep = |levels: usize| {
        (1..levels).fold(closed(Map::new()), |inner, _| closed(Map::from_iter([("p".to_owned(), inner)])))
    };
    assert!(is_strict(&deep(10)) && !is_strict(&deep(13)));
}

#[test]
fn an_answer_that_is_no_object_is_checked_on_our_side_alone_unless_the_server_takes_it() {
    let list = OutputSchema::new(json!({ "type": "array", "items": { "type": "string" } })).unwrap();
    let (format, warnings) = output_format(&list, &SchemaRules::OBJECT_ROOT);
    assert_eq!(format, json!({ "type": "text" }));
    assert!(warnings[0].contains("is not told to the server"), "{warnings:?}");
    let (format, warnings) = output_format(&list, &SchemaRules::ANY);
    assert_eq!((&format["schema"], &format["strict"]), (list.schema(), &json!(false)));
    assert!(warnings.is_empty());
}
