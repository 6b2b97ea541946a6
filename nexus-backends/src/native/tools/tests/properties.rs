//! Whatever a schema is, it goes out with a plain object at its root, and going through twice changes nothing.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Any JSON at all, with the vocabulary of JSON Schema for keys, so that every odd combination comes up.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i8>().prop_map(Value::from),
        select(vec!["object", "string", "null", "", "#", "#/$defs/a", "#/properties/p", "x"])
            .prop_map(Value::from),
    ];
    let keyword = select(vec![
        "type",
        "properties",
        "required",
        "anyOf",
        "oneOf",
        "allOf",
        "not",
        "enum",
        "const",
        "$ref",
        "$defs",
        "items",
        "additionalProperties",
        "description",
        "p",
        "a",
        "definitions",
        "dependencies",
        "prefixItems",
        "if",
    ]);
    leaf.prop_recursive(5, 60, 5, move |inner| {
        let pairs = vec((keyword.clone().prop_map(str::to_owned), inner.clone()), 0..5);
        prop_oneof![
            vec(inner, 0..4).prop_map(Value::from),
            pairs.prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

/// Schemas that are well formed but for a reference here and there.
fn any_schema() -> impl Strategy<Value = Value> {
    let types = || select(vec!["string", "number", "integer", "boolean", "object", "array", "null"]);
    let reference = select(vec![
        "#",
        "#/$defs/a",
        "#/$defs/b",
        "#/$defs/a/properties/p",
        "#/properties/p/items",
        "#/none",
    ]);
    let value = prop_oneof![Just(json!(null)), Just(json!("x")), Just(json!(1)), Just(json!({ "p": 1 }))];
    let leaf = prop_oneof![
        4 => types().prop_map(|name| json!({ "type": name })),
        2 => vec(types(), 1..3).prop_map(|names| json!({ "type": names })),
        2 => vec(value.clone(), 1..4).prop_map(|values| json!({ "enum": values })),
        1 => value.prop_map(|value| json!({ "const": value, "description": "One." })),
        3 => reference.prop_map(|to| json!({ "$ref": to })),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({ "type": "string", "minLength": 2, "description": "Text." })),
        1 => Just(json!({ "type": ["string", "null"], "enum": ["a", null] })),
    ];
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let list = || option::weighted(0.3, vec(inner.clone(), 1..4));
        let one = || option::weighted(0.2, inner.clone());
        let named = |names| option::weighted(0.4, vec((select(names), inner.clone()), 0..3));
        let parts = (
            (list(), list(), list(), one(), one()),
            (named(vec!["p", "q/r"]), named(vec!["a", "b"])),
            option::of(types()),
            option::of(Just(json!(["p"]))),
        );
        parts.prop_map(|((any, one, all, items, not), (properties, definitions), name, required)| {
            let named = |pairs: Option<Vec<(&'static str, Value)>>| {
                pairs.map(|pairs| {
                    Value::Object(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
                })
            };
            let parts = [
                ("anyOf", any.map(Value::from)),
                ("oneOf", one.map(Value::from)),
                ("allOf", all.map(Value::from)),
                ("items", items),
                ("not", not),
                ("properties", named(properties)),
                ("$defs", named(definitions)),
                ("type", name.map(Value::from)),
                ("required", required),
            ];
            Value::Object(
                parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
            )
        })
    })
}

fn check(schema: &Value) {
    let (once, _) = project(schema);
    assert_eq!(once["type"], json!("object"));
    for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
        assert!(once.get(keyword).is_none(), "{keyword} at the root");
    }
    assert!(once.get("properties").is_some());
    assert_eq!(project(&once), (once, None));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_becomes_one_with_an_object_at_its_root(schema in any_json()) {
        check(&schema);
    }

    #[test]
    fn any_schema_becomes_one_with_an_object_at_its_root(schema in any_schema()) {
        check(&schema);
    }

    #[test]
    fn an_offer_lists_every_well_named_tool_once(
        names in vec(select(vec!["a", "b", "a b", "", "c_-9"]), 0..8),
        schema in any_json(),
    ) {
        let definitions: Vec<_> = names.iter().map(|name| tool(name, schema.clone())).collect();
        let offered = offer(&definitions, true).tools;
        let offered: BTreeSet<_> = offered.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        let expected = names.iter().filter(|name| is_name(name)).map(|name| (*name).to_owned()).collect();
        prop_assert_eq!(offered, expected);
    }
}
