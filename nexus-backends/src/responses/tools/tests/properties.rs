//! Whatever a schema is, its projection meets the rules, and projecting it again changes nothing.

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

fn any_rules() -> impl Strategy<Value = SchemaRules> {
    any::<[bool; 4]>().prop_map(|[root_composition, non_object_unions, null_in_enum, references]| {
        SchemaRules { root_composition, non_object_unions, null_in_enum, references }
    })
}

/// Asserts that a projected schema is one that `rules` take.
fn assert_meets(projected: &Value, rules: &SchemaRules) {
    let root = projected.as_object().expect("the root is an object");
    assert_eq!(root.get("type"), Some(&json!("object")));
    if !rules.root_composition {
        for keyword in ["anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"] {
            assert!(!root.contains_key(keyword), "{keyword} at the root");
        }
    }
    assert_subschema_meets(root, projected, rules);
}

fn assert_subschema_meets(schema: &Map<String, Value>, root: &Value, rules: &SchemaRules) {
    let types = keywords::types(schema);
    assert!(!types.contains(&"object") || schema.contains_key("properties"), "an object without properties");
    assert!(!types.contains(&"array") || schema.contains_key("items"), "an array without items");
    if let Some(reference) = schema.get("$ref") {
        assert!(rules.references, "{reference} is left");
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
        let target = root.pointer(pointer);
        assert!(
            target.is_some_and(|target| target.is_object() || target.is_boolean()),
            "{reference} leads nowhere"
        );
    }
    if let (Some(Value::Array(values)), false) = (schema.get("enum"), rules.null_in_enum) {
        assert!(!values.contains(&Value::Null), "null among {values:?}");
    }
    for keyword in ["anyOf", "oneOf"] {
        if let (Some(Value::Array(list)), false) = (schema.get(keyword), rules.non_object_unions) {
            assert!(
                list.iter().all(|value| is_object(value, root, 50)),
                "a union with other than objects: {list:?}"
            );
        }
    }
    for_each_subschema(&mut schema.clone(), "", |value, _| match value {
        Value::Object(schema) => assert_subschema_meets(schema, root, rules),
        Value::Bool(_) => {}
        other => panic!("{other} is no schema"),
    });
}

fn is_object(schema: &Value, root: &Value, depth: usize) -> bool {
    if depth == 0 || !schema.is_object() {
        return false;
    }
    let all = |keyword: &str| {
        let list = schema.get(keyword).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().all(|value| is_object(value, root, depth - 1)))
    };
    let any = |keyword: &str| {
        let list = schema.get(keyword).and_then(Value::as_array);
        list.is_some_and(|list| list.iter().any(|value| is_object(value, root, depth - 1)))
    };
    match (schema.get("type"), schema.get("$ref").and_then(Value::as_str)) {
        (Some(name), _) => *name == "object" || *name == json!(["object"]),
        _ if schema.get("properties").is_some() || all("anyOf") || all("oneOf") || any("allOf") => true,
        (None, Some(reference)) => root
            .pointer(reference.trim_start_matches('#'))
            .is_some_and(|target| is_object(target, root, depth - 1)),
        _ => false,
    }
}

fn check(schema: &Value, rules: &SchemaRules) {
    let (once, _) = project(schema, rules);
    assert_meets(&once, rules);
    let (twice, losses) = project(&once, rules);
    assert_eq!(losses, Vec::<String>::new(), "lost from {once}");
    assert_eq!(once, twice);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_json_becomes_a_schema_that_meets_the_rules(schema in any_json(), rules in any_rules()) {
        check(&schema, &rules);
    }

    #[test]
    fn any_schema_becomes_one_that_meets_the_rules(schema in any_schema(), rules in any_rules()) {
        check(&schema, &rules);
    }

    #[test]
    fn an_offer_lists_every_well_named_tool_once(
        names in vec(select(vec!["a", "b", "a b", "", "c_-9"]), 0..8),
        schema in any_json(),
        rules in any_rules(),
    ) {
        let definitions: Vec<_> = names.iter().map(|name| tool(name, schema.clone())).collect();
        let offered = offer(&definitions, &rules).tools;
        let offered: BTreeSet<_> = offered.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        let expected = names.iter().filter(|name| is_name(name)).map(|name| (*name).to_owned()).collect();
        prop_assert_eq!(offered, expected);
    }
}
