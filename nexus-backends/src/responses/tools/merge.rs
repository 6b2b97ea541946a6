//! Several schemas of an object made into one: what all of them say, or what any of them says.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::keywords::{below, is_annotation};
use super::projection::{MAX_DEPTH, Projection};
use super::{keywords, unions};

/// What servers take at the root of no schema.
const COMPOSITION: [&str; 7] = ["$ref", "allOf", "anyOf", "const", "enum", "not", "oneOf"];

/// Whether a schema is made of others, or of single values.
pub(super) fn is_composed(schema: &Map<String, Value>) -> bool {
    COMPOSITION.iter().any(|keyword| schema.contains_key(*keyword))
}

/// The root as one plain object: the properties of all its alternatives, and only what each of them requires
/// as required. Definitions stay where they are.
pub(super) fn flattened_root(
    mut root: Map<String, Value>,
    projection: &mut Projection<'_>,
) -> Map<String, Value> {
    let definitions: Vec<_> =
        ["$defs", "definitions"].iter().filter_map(|keyword| root.remove_entry(*keyword)).collect();
    let mut flat = flattened(root, "", projection, MAX_DEPTH).unwrap_or_else(|| {
        projection.lose("", "no object fits it, and arguments are always an object; any object is offered");
        Map::new()
    });
    flat.extend(definitions);
    flat
}

/// The schema as a plain object, or `None` if no object fits it.
fn flattened(
    mut schema: Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
) -> Option<Map<String, Value>> {
    let types = keywords::types(&schema);
    if !types.is_empty() && !types.contains(&"object") {
        return None;
    }
    keywords::set_types(&mut schema, &["object"]);
    let parts = COMPOSITION.map(|keyword| (keyword, schema.remove(keyword)));
    for (keyword, part) in parts {
        let Some(part) = part else { continue };
        let place = below(place, keyword);
        let Some(depth) = depth.checked_sub(1) else {
            projection.lose(&place, "it goes too deep, and is not told");
            continue;
        };
        let flat = |schema: Value, projection: &mut Projection<'_>| match schema {
            Value::Object(mut schema) => {
                schema.remove("$defs");
                schema.remove("definitions");
                flattened(schema, &place, projection, depth)
            }
            Value::Bool(false) => None,
            _ => Some(Map::new()),
        };
        let said = match (keyword, part) {
            ("$ref", Value::String(reference)) => {
                let pointer = projection.place_of(&reference)?;
                match projection.copy(&pointer) {
                    Some(target) => flat(target, projection)?,
                    None => {
                        projection.lose(&place, "it is too large to be spelled out, and is not told");
                        continue;
                    }
                }
            }
            ("allOf", Value::Array(list)) => {
                let mut all = Map::new();
                for schema in list {
                    let schema = flat(schema, projection)?;
                    all = conjunction(all, schema, &place, projection);
                }
                all
            }
            ("anyOf" | "oneOf", Value::Array(list)) => {
                let any = list.into_iter().filter_map(|schema| flat(schema, projection)).collect();
                either(any, &place, projection)?
            }
            ("enum", Value::Array(values)) => either(objects(values), &place, projection)?,
            ("const", value) => either(objects(vec![value]), &place, projection)?,
            _ => {
                projection.lose(&place, "what is ruled out is not told");
                continue;
            }
        };
        schema = conjunction(schema, said, &place, projection);
    }
    Some(schema)
}

/// What any of several plain objects says; `None` if there is none.
fn either(
    mut alternatives: Vec<Map<String, Value>>,
    place: &str,
    projection: &mut Projection<'_>,
) -> Option<Map<String, Value>> {
    let mut distinct: Vec<Map<String, Value>> = Vec::new();
    alternatives.retain(|schema| {
        !distinct.contains(schema) && {
            distinct.push(schema.clone());
            true
        }
    });
    if distinct.len() > 1 {
        let what = format!(
            "its {} alternatives are offered as one object; which properties go together is not told",
            distinct.len()
        );
        projection.lose(place, what);
    }
    (!distinct.is_empty()).then(|| disjunction(distinct))
}

/// Schemas that each admit one of the objects among `values`.
fn objects(values: Vec<Value>) -> Vec<Map<String, Value>> {
    let schema = |value: Value| {
        let Value::Object(object) = value else { return None };
        let required: Vec<_> = object.keys().cloned().collect();
        let properties: Map<_, _> =
            object.into_iter().map(|(name, value)| (name, json!({ "const": value }))).collect();
        Some(Map::from_iter([
            ("type".to_owned(), json!("object")),
            ("properties".to_owned(), Value::Object(properties)),
            ("required".to_owned(), json!(required)),
        ]))
    };
    values.into_iter().filter_map(schema).collect()
}

/// What any of several schemas says: properties of all, required where all require it, and of everything else
/// what they have in common.
pub(super) fn disjunction(schemas: Vec<Map<String, Value>>) -> Map<String, Value> {
    let mut schemas = schemas.into_iter();
    let Some(mut any) = schemas.next() else { return Map::new() };
    for schema in schemas {
        any.retain(|keyword, value| {
            matches!(keyword.as_str(), "properties" | "required") || schema.get(keyword) == Some(value)
        });
        let required = names(&any).intersection(&names(&schema)).cloned().collect::<Vec<_>>();
        any.remove("required");
        if !required.is_empty() {
            any.insert("required".to_owned(), json!(required));
        }
        let Some(Value::Object(properties)) = schema.get("properties") else { continue };
        let known = any.entry("properties").or_insert_with(|| json!({}));
        let Value::Object(known) = known else { continue };
        for (name, property) in properties {
            match known.get_mut(name) {
                Some(other) => *other = unions::alternative(std::mem::take(other), property.clone()),
                None => {
                    known.insert(name.clone(), property.clone());
                }
            }
        }
    }
    any
}

/// What two schemas say together. Where they contradict each other, the first stands.
pub(super) fn conjunction(
    mut first: Map<String, Value>,
    second: Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
) -> Map<String, Value> {
    for (keyword, value) in second {
        let Some(known) = first.get_mut(&keyword) else {
            first.insert(keyword, value);
            continue;
        };
        if *known == value || is_annotation(&keyword) {
            continue;
        }
        match (keyword.as_str(), known, value) {
            ("properties", Value::Object(known), Value::Object(more)) => {
                let place = below(place, "properties");
                for (name, property) in more {
                    let both = match (known.remove(&name), property) {
                        (Some(Value::Object(one)), Value::Object(two)) => {
                            Value::Object(conjunction(one, two, &below(&place, &name), projection))
                        }
                        (Some(Value::Bool(false)), _) | (Some(_), Value::Bool(false)) => Value::Bool(false),
                        (Some(one @ Value::Object(_)), _) => one,
                        (_, two) => two,
                    };
                    known.insert(name, both);
                }
            }
            ("required", Value::Array(known), Value::Array(more)) => {
                let new: Vec<_> = more.into_iter().filter(|name| !known.contains(name)).collect();
                known.extend(new);
            }
            ("type", known, value) => {
                let both = common_types(known, &value);
                if both.is_empty() {
                    projection
                        .lose(&below(place, "type"), "two types contradict each other; the first stands");
                } else {
                    keywords::set_types(&mut first, &both.iter().map(String::as_str).collect::<Vec<_>>());
                }
            }
            ("additionalProperties", known, Value::Bool(false)) => *known = Value::Bool(false),
            ("additionalProperties", Value::Bool(false), _) => {}
            ("additionalProperties", known @ Value::Bool(true), value) => *known = value,
            (keyword, _, _) => {
                projection.lose(&below(place, keyword), "it is said twice, and differs; the first stands");
            }
        }
    }
    first
}

fn common_types(one: &Value, two: &Value) -> Vec<String> {
    let list = |value: &Value| match value {
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        value => value.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
    };
    let (one, two) = (list(one), list(two));
    let has = |list: &[String], name: &str| list.iter().any(|other| other == name);
    let mut common: Vec<_> = one
        .iter()
        .filter(|name| has(&two, name) || (*name == "integer" && has(&two, "number")))
        .cloned()
        .collect();
    if has(&one, "number") && has(&two, "integer") && !has(&common, "integer") {
        common.push("integer".to_owned());
    }
    common
}

fn names(schema: &Map<String, Value>) -> BTreeSet<String> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
