//! References inside of a schema: where they lead, and how they are replaced by what stands there.

use serde_json::{Map, Value, json};

use super::keywords;
use super::keywords::{describe, for_each_subschema, shortened};
use super::merge::conjunction;
use super::projection::{MAX_DEPTH, Projection};

/// The JSON Pointers that a reference may mean: as it is written, and with its percent signs read.
pub(super) fn pointers(reference: &str) -> impl Iterator<Item = String> {
    let written = reference.strip_prefix('#');
    let read = written.filter(|pointer| pointer.contains('%')).and_then(percent_decoded);
    written.map(str::to_owned).into_iter().chain(read)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut read = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            read.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        read.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(read).ok()
}

/// Whether any reference leads to something else than the root or one of its definitions. Servers follow no
/// other. Source: the error "reference can only point to definitions defined at the top level of the schema".
pub(super) fn leave_definitions(root: &Map<String, Value>) -> bool {
    let stays = |reference: &str| {
        let name = ["#/$defs/", "#/definitions/"].iter().find_map(|place| reference.strip_prefix(place));
        reference == "#" || name.is_some_and(|name| !name.contains('/'))
    };
    any(root, &|schema| schema.get("$ref").and_then(Value::as_str).is_some_and(|reference| !stays(reference)))
}

fn any(schema: &Map<String, Value>, test: &impl Fn(&Map<String, Value>) -> bool) -> bool {
    let mut found = test(schema);
    for_each_subschema(&mut schema.clone(), "", |value, _| {
        found = found || value.as_object().is_some_and(|schema| any(schema, test));
    });
    found
}

/// The root with everything that it refers to in place of the reference.
pub(super) fn inlined_root(root: Map<String, Value>, projection: &mut Projection<'_>) -> Map<String, Value> {
    inlined(root, "", projection, MAX_DEPTH)
}

fn inlined(
    mut schema: Map<String, Value>,
    place: &str,
    projection: &mut Projection<'_>,
    depth: usize,
) -> Map<String, Value> {
    schema.remove("$defs");
    schema.remove("definitions");
    for keyword in ["$dynamicRef", "$recursiveRef"] {
        if schema.remove(keyword).is_some() {
            projection.lose(place, format!("{keyword} is not followed, so anything is admitted"));
        }
    }
    let reference = schema.remove("$ref");
    for_each_subschema(&mut schema, place, |value, place| match (value, depth.checked_sub(1)) {
        (Value::Object(schema), Some(depth)) => {
            *schema = inlined(std::mem::take(schema), place, projection, depth);
        }
        (value @ Value::Object(_), None) => {
            projection.lose(place, "it lies too deep, so anything is admitted");
            *value = json!({});
        }
        _ => {}
    });
    let Some(reference) = reference.as_ref().and_then(Value::as_str) else { return schema };
    let Some(pointer) = projection.place_of(reference) else { return schema };
    let room = depth.checked_sub(1).filter(|_| !projection.open.contains(&pointer));
    match room.and_then(|depth| Some((depth, projection.copy(&pointer)?))) {
        Some((depth, Value::Object(target))) => {
            projection.open.push(pointer);
            let target = inlined(target, place, projection, depth);
            projection.open.pop();
            conjunction(schema, target, place, projection)
        }
        Some((_, Value::Bool(false))) => {
            conjunction(schema, Map::from_iter([("not".to_owned(), json!({}))]), place, projection)
        }
        Some(_) => schema,
        None => cut(schema, reference, place, projection),
    }
}

/// What stands where something is not spelled out, because it contains itself or there is no room: its type,
/// and words.
pub(super) fn cut(
    mut schema: Map<String, Value>,
    reference: &str,
    place: &str,
    projection: &mut Projection<'_>,
) -> Map<String, Value> {
    let target = projection.target(reference).and_then(Value::as_object);
    if let Some(target) = target.filter(|_| !schema.contains_key("type")) {
        keywords::set_types(&mut schema, &keywords::types(target));
    }
    let reference = shortened(reference);
    describe(&mut schema, &format!("As {reference} once more."));
    projection
        .lose(place, format!("{reference} contains itself or is too large, and is not spelled out here"));
    schema
}
