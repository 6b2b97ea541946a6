//! Alternatives inside of a schema, made into one schema where a server takes none.
//!
//! A keyword such as `minLength` says nothing about a value of another type. So alternatives of different types
//! become one schema with a list of types, and nothing is lost; lists of values become one list.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keywords::{below, describe, for_each_subschema, is_annotation, speaks_of};
use super::merge::{conjunction, disjunction};
use super::projection::Projection;
use super::values::{NO_NULL, in_words, take_null_from_enum, types_of, values_of, values_of_all};
use super::{keywords, references};

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
            .map(|keyword| merge_alternatives(schema, keyword, place, projection, depth, is_optional))
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
    is_optional: bool,
) -> bool {
    let Some(Value::Array(list)) = schema.get(keyword) else { return false };
    if list.iter().all(|alternative| is_object(alternative, projection, depth)) {
        return false;
    }
    let Some(Value::Array(list)) = schema.remove(keyword) else { return false };
    let here = below(place, keyword);
    let Some(mut alternatives) = spliced(list, &here, projection, depth) else { return true };
    let is_null = |schema: &Map<String, Value>| keywords::types(schema) == ["null"];
    if alternatives.is_empty() {
        projection.lose(&here, "nothing fits it; anything is admitted");
        return true;
    }
    let (mut merged, mut is_exact) = united(&alternatives);
    if !is_exact && is_optional && alternatives.iter().any(is_null) {
        projection.lose(place, NO_NULL);
        alternatives.retain(|schema| !is_null(schema));
        (merged, is_exact) = united(&alternatives);
        let list: Vec<_> = alternatives.into_iter().map(Value::Object).collect();
        if !is_exact && list.iter().all(|alternative| is_object(alternative, projection, depth)) {
            schema.insert(keyword.to_owned(), Value::Array(list));
            return true;
        }
    }
    if !is_exact {
        let kinds = match keywords::types(&merged)[..] {
            [] => "any type".to_owned(),
            ref names => names.join(" or "),
        };
        let what = format!(
            "its alternatives are offered as one value of {kinds}; what each of them asks is not told"
        );
        projection.lose(&here, what);
    }
    if let Some(Value::String(words)) = merged.remove("description") {
        describe(schema, &words);
    }
    *schema = conjunction(std::mem::take(schema), merged, &here, projection);
    true
}

/// The alternatives, those of nested unions among them, each once and with what it refers to in place of the
/// reference. `None` if one of them admits anything.
fn spliced(
    list: Vec<Value>,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
) -> Option<Vec<Map<String, Value>>> {
    let mut alternatives: Vec<Map<String, Value>> = Vec::new();
    for (index, alternative) in list.into_iter().enumerate() {
        let place = format!("{place}/{index}");
        let mut alternative = match alternative {
            Value::Object(alternative) => resolved(alternative, &place, projection, depth),
            Value::Bool(false) => continue,
            _ => return None,
        };
        let says: Vec<_> =
            alternative.keys().map(String::as_str).filter(|keyword| !is_annotation(keyword)).collect();
        let nested = match says[..] {
            [] => return None,
            ["anyOf"] => alternative.remove("anyOf"),
            ["oneOf"] => alternative.remove("oneOf"),
            _ => None,
        };
        let found = match (nested, depth.checked_sub(1)) {
            (Some(Value::Array(nested)), Some(depth)) => spliced(nested, &place, projection, depth)?,
            _ => vec![alternative],
        };
        for schema in found {
            if !alternatives.contains(&schema) {
                alternatives.push(schema);
            }
        }
    }
    Some(alternatives)
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

/// Alternatives as one schema, and whether it says the same.
fn united(alternatives: &[Map<String, Value>]) -> (Map<String, Value>, bool) {
    if let [one] = alternatives {
        return (one.clone(), true);
    }
    if let Some(values) = values_of_all(&alternatives.iter().collect::<Vec<_>>()) {
        return (values, true);
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
        let values = || values_of(schema).filter(|values| values.iter().any(|value| !value.is_null()));
        let words = schema.get("description").and_then(Value::as_str).map(str::to_owned);
        if let Some(sentence) = words.or_else(|| Some(format!("It may be {}.", in_words(&values()?)))) {
            describe(&mut united, &sentence);
        }
    }
    (united, is_exact)
}
