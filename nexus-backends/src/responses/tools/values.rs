//! Schemas that list the values they admit: made into one list, and rid of `null` where a server takes none.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keywords;
use super::keywords::{describe, is_annotation, type_of};
use super::projection::Projection;

/// What is lost where `null` is left out because the property can be.
pub(super) const NO_NULL: &str = "null is not offered; the property can be left out instead";

/// How many values are told in words.
const MAX_VALUES_IN_WORDS: usize = 40;

/// The types of value that fit `schema`; empty if it does not tell.
pub(super) fn types_of(schema: &Map<String, Value>) -> Vec<&str> {
    let named = keywords::types(schema);
    if !named.is_empty() {
        return named;
    }
    match values_of(schema) {
        Some(values) => values.iter().map(type_of).collect::<BTreeSet<_>>().into_iter().collect(),
        None if schema.contains_key("properties") => vec!["object"],
        None => Vec::new(),
    }
}

/// The values that a schema lists, if it says nothing else of them but their type.
pub(super) fn values_of(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let others = schema.keys().filter(|keyword| !is_annotation(keyword) && *keyword != "type");
    match others.map(String::as_str).collect::<Vec<_>>()[..] {
        ["const"] => Some(vec![schema.get("const")?.clone()]),
        ["enum"] => schema.get("enum")?.as_array().cloned(),
        [] if keywords::types(schema) == ["null"] => Some(vec![Value::Null]),
        _ => None,
    }
}

/// One list of the values of all, if each of them is a list of values. What is said of single values becomes
/// part of the description.
pub(super) fn values_of_all(schemas: &[&Map<String, Value>]) -> Option<Map<String, Value>> {
    let lists: Option<Vec<_>> = schemas.iter().map(|schema| values_of(schema)).collect();
    let lists = lists?;
    let mut values: Vec<Value> = Vec::new();
    let mut merged = Map::new();
    for (schema, list) in schemas.iter().zip(lists) {
        if let Some(words) = schema.get("description").and_then(Value::as_str) {
            match list.len() {
                1 => describe(&mut merged, &format!("{}: {words}", in_words(&list))),
                _ => describe(&mut merged, words),
            }
        }
        values.extend(list);
    }
    let mut seen = BTreeSet::new();
    values.retain(|value| seen.insert(value.to_string()));
    let mut types: Vec<&str> = Vec::new();
    for schema in schemas {
        let named = types_of(schema);
        types.extend(named.into_iter().filter(|name| !types.contains(name)).collect::<Vec<_>>());
    }
    keywords::set_types(&mut merged, &types);
    merged.insert("enum".to_owned(), Value::Array(values));
    Some(merged)
}

/// Says in another way that `null` is among the values.
///
/// `is_optional` says that the value may be left out, which does as well.
pub(super) fn take_null_from_enum(
    schema: &mut Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
    is_optional: bool,
) {
    let Some(Value::Array(values)) = schema.get("enum") else { return };
    let others: Vec<Value> = values.iter().filter(|value| !value.is_null()).cloned().collect();
    if others.len() == values.len() {
        return;
    }
    let admits_null = !schema.contains_key("type") || keywords::types(schema).contains(&"null");
    let types: Vec<String> =
        keywords::types(schema).into_iter().filter(|name| *name != "null").map(str::to_owned).collect();
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    schema.remove("enum");
    if others.is_empty() && admits_null {
        keywords::set_types(schema, &["null"]);
    } else if others.is_empty() {
        projection.lose(place, "nothing fits it; its one value, null, is not told");
    } else if !admits_null {
        schema.insert("enum".to_owned(), Value::Array(others));
    } else if projection.rules.non_object_unions && !schema.contains_key("anyOf") {
        schema.remove("type");
        let mut listed = Map::from_iter([("enum".to_owned(), Value::Array(others))]);
        keywords::set_types(&mut listed, &types);
        schema.insert("anyOf".to_owned(), json!([listed, { "type": "null" }]));
    } else if is_optional {
        keywords::set_types(schema, &types);
        schema.insert("enum".to_owned(), Value::Array(others));
        projection.lose(place, NO_NULL);
    } else {
        let told: BTreeSet<&str> = if types.is_empty() {
            others.iter().map(type_of).collect()
        } else {
            types.iter().copied().collect()
        };
        keywords::set_types(schema, &told.into_iter().chain(["null"]).collect::<Vec<_>>());
        describe(schema, &format!("It is {} or null.", in_words(&others)));
        projection.lose(place, "its values, null among them, are told in words");
    }
}

/// The values, separated by commas.
pub(super) fn in_words(values: &[Value]) -> String {
    let listed: Vec<_> = values.iter().take(MAX_VALUES_IN_WORDS).map(Value::to_string).collect();
    let more = if values.len() > MAX_VALUES_IN_WORDS { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
