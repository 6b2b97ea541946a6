//! Alternatives inside of a schema, made into one schema where a server takes none.
//!
//! A keyword such as `minLength` says nothing about a value of another type. So alternatives of different types
//! become one schema with a list of types, and nothing is lost; lists of values become one list.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{
    keywords::{self, below, describe, for_each_subschema, is_annotation, speaks_of, type_of},
    merge::{conjunction, disjunction},
    projection::Projection,
    references,
};

/// How many values are told in words.
const MAX_VALUES_IN_WORDS: usize = 40;

/// Brings `schema` and all below it under the rules for alternatives and for `null`.
///
/// `is_optional` says that the value may be left out.
pub(super) fn settle(
    schema: &mut Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
    is_optional: bool,
) {
    let optional = optional_places(schema, place);
    for_each_subschema(schema, place, |value, place| {
        if let Value::Object(schema) = value {
            settle(schema, place, projection, depth, optional.contains(place));
        }
    });
    if !projection.rules.non_object_unions {
        let merged = ["anyOf", "oneOf"]
            .map(|keyword| merge_alternatives(schema, keyword, place, projection, depth))
            .contains(&true);
        // An alternative may have brought unions of its own, or made one of two properties.
        if merged && let Some(depth) = depth.checked_sub(1) {
            return settle(schema, place, projection, depth, is_optional);
        }
    }
    if !projection.rules.null_in_enum {
        take_null_from_enum(schema, place, projection, is_optional);
    }
}

fn optional_places(schema: &Map<String, Value>, place: &str) -> BTreeSet<String> {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    let place = below(place, "properties");
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties.into_iter().flat_map(Map::keys);
    names.filter(|name| !is_required(name)).map(|name| below(&place, name)).collect()
}

/// Whether nothing but an object fits `schema`, as far as its shape tells.
pub(super) fn is_object(schema: &Value, projection: &Projection<'_>, depth: usize) -> bool {
    let (Some(schema), Some(depth)) = (schema.as_object(), depth.checked_sub(1)) else { return false };
    let types = keywords::types(schema);
    if !types.is_empty() {
        return types.iter().all(|name| *name == "object");
    }
    let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
    let inside = |schema: &Value| is_object(schema, projection, depth);
    if schema.contains_key("const") || schema.contains_key("enum") {
        return false;
    }
    let unions: Vec<_> = ["anyOf", "oneOf"].into_iter().filter_map(list).collect();
    if !unions.is_empty() {
        return unions.into_iter().flatten().all(inside);
    }
    let target = || projection.target(schema.get("$ref")?.as_str()?);
    schema.contains_key("properties")
        || target().is_some_and(inside)
        || list("allOf").is_some_and(|list| list.iter().any(inside))
}

/// One schema or another, as plainly as it can be said.
pub(super) fn alternative(one: Value, two: Value) -> Value {
    if one == two {
        return one;
    }
    let mut list = match one {
        // Made here, from two others.
        Value::Object(mut one) if one.len() == 1 && one.contains_key("anyOf") => match one.remove("anyOf") {
            Some(Value::Array(list)) => list,
            other => other.into_iter().collect(),
        },
        one => vec![one],
    };
    if !list.contains(&two) {
        list.push(two);
    }
    let maps: Option<Vec<_>> = list.iter().map(Value::as_object).collect();
    match maps.and_then(|maps| values_of_all(&maps)) {
        Some(values) => Value::Object(values),
        None => json!({ "anyOf": list }),
    }
}

/// Says whether there was anything to merge.
fn merge_alternatives(
    schema: &mut Map<String, Value>,
    keyword: &str,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
) -> bool {
    let Some(Value::Array(list)) = schema.get(keyword) else { return false };
    if list.iter().all(|alternative| is_object(alternative, projection, depth)) {
        return false;
    }
    let Some(Value::Array(list)) = schema.remove(keyword) else { return false };
    let place = below(place, keyword);
    let mut alternatives: Vec<Map<String, Value>> = Vec::new();
    for (index, alternative) in list.into_iter().enumerate() {
        let alternative = match alternative {
            Value::Object(alternative) => {
                resolved(alternative, &format!("{place}/{index}"), projection, depth)
            }
            Value::Bool(false) => continue,
            _ => Map::new(),
        };
        if alternative.keys().all(|keyword| is_annotation(keyword)) {
            // Whatever the others say, anything is admitted.
            return true;
        }
        if !alternatives.contains(&alternative) {
            alternatives.push(alternative);
        }
    }
    if alternatives.is_empty() {
        projection.lose(&place, "nothing fits it; anything is admitted");
        return true;
    }
    let united = united(&alternatives, &place, projection);
    *schema = conjunction(std::mem::take(schema), united, &place, projection);
    true
}

/// An alternative with what it refers to in place of the reference.
fn resolved(
    mut schema: Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
) -> Map<String, Value> {
    let Some(Value::String(reference)) = schema.remove("$ref") else { return schema };
    let Some(pointer) = projection.place_of(&reference) else { return schema };
    let room = depth.checked_sub(1).filter(|_| !projection.open.contains(&pointer));
    match room.and_then(|depth| Some((depth, projection.copy(&pointer)?))) {
        Some((depth, Value::Object(mut target))) => {
            target.remove("$defs");
            target.remove("definitions");
            projection.open.push(pointer);
            settle(&mut target, place, projection, depth, false);
            let target = resolved(target, place, projection, depth);
            projection.open.pop();
            conjunction(schema, target, place, projection)
        }
        Some(_) => schema,
        None => references::cut(schema, &reference, place, projection),
    }
}

/// Alternatives as one schema.
fn united(
    alternatives: &[Map<String, Value>],
    place: &str,
    projection: &mut Projection<'_>,
) -> Map<String, Value> {
    if let [one] = alternatives {
        return one.clone();
    }
    if let Some(values) = values_of_all(&alternatives.iter().collect::<Vec<_>>()) {
        return values;
    }
    let types: Vec<Vec<&str>> = alternatives.iter().map(types_of).collect();
    let mut united = Map::new();
    let mut is_exact = true;
    let mut names: Vec<&str> = Vec::new();
    for name in types.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    if types.iter().any(Vec::is_empty) {
        (names, is_exact) = (Vec::new(), false);
    }
    if names.contains(&"number") {
        names.retain(|name| *name != "integer");
    }
    for group in ["string", "number", "array", "object"] {
        let is_of = |name: &&str| *name == group || (group == "number" && *name == "integer");
        if !names.iter().any(is_of) {
            continue;
        }
        let speaking = alternatives.iter().zip(&types).filter(|(_, types)| types.iter().any(is_of));
        let mut parts: Vec<Map<String, Value>> = Vec::new();
        for (schema, _) in speaking {
            let said = schema.iter().filter(|(keyword, _)| speaks_of(keyword) == Some(group));
            let part = said.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        is_exact &= parts.len() == 1;
        united.extend(disjunction(parts));
    }
    is_exact &= alternatives.iter().all(|schema| {
        schema
            .keys()
            .all(|keyword| keyword == "type" || speaks_of(keyword).is_some() || is_annotation(keyword))
    });
    keywords::set_types(&mut united, &names);
    for schema in alternatives {
        let values = values_of(schema).filter(|_| !schema.contains_key("description"));
        let words = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        if let Some(sentence) = words.or_else(|| Some(format!("It may be {}.", in_words(&values?)))) {
            describe(&mut united, &sentence);
        }
    }
    if !is_exact {
        let kinds = if names.is_empty() { "any type".to_owned() } else { names.join(" or ") };
        let what = format!(
            "its alternatives are offered as one value of {kinds}; what each of them asks is not told"
        );
        projection.lose(place, what);
    }
    united
}

/// The types of value that fit `schema`; empty if it does not tell.
fn types_of(schema: &Map<String, Value>) -> Vec<&str> {
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
fn values_of(schema: &Map<String, Value>) -> Option<Vec<Value>> {
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
fn values_of_all(schemas: &[&Map<String, Value>]) -> Option<Map<String, Value>> {
    let lists: Option<Vec<_>> = schemas.iter().map(|schema| values_of(schema)).collect();
    let lists = lists?;
    let mut values: Vec<Value> = Vec::new();
    let mut merged = Map::new();
    for (schema, list) in schemas.iter().zip(lists) {
        if let Some(words) = schema.get("description").and_then(Value::as_str) {
            describe(&mut merged, &format!("{}: {words}", in_words(&list)));
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

fn take_null_from_enum(
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
        projection.lose(place, "null is not offered; the property can be left out instead");
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

fn in_words(values: &[Value]) -> String {
    let listed: Vec<_> = values.iter().take(MAX_VALUES_IN_WORDS).map(Value::to_string).collect();
    let more = if values.len() > MAX_VALUES_IN_WORDS { ", …" } else { "" };
    format!("{}{more}", listed.join(", "))
}
