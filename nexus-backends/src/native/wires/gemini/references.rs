//! References of a schema after its reduction, which moves some of their targets.

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::{Map, Value};

/// Keywords whose value maps names to schemas.
const NAMED_SCHEMAS: [&str; 4] = ["$defs", "dependentSchemas", "patternProperties", "properties"];

/// Updates the references of `schema`, which was reduced from `original`. Drops a reference without a target, because a
/// server may reject the whole request for one.
pub(super) fn update(schema: &mut Value, original: &Value, lost: &mut BTreeSet<String>) {
    let reduced = schema.clone();
    update_in(schema, original, &reduced, lost);
}

fn update_in(schema: &mut Value, original: &Value, reduced: &Value, lost: &mut BTreeSet<String>) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::String(reference)) = members.get_mut("$ref") {
        match moved(reference, original, reduced) {
            Some(moved) => *reference = moved,
            None => {
                members.remove("$ref");
                lost.insert("$ref".to_owned());
            }
        }
    }
    for (keyword, value) in members {
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(named)) => {
                named.values_mut().for_each(|each| update_in(each, original, reduced, lost));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().for_each(|each| update_in(each, original, reduced, lost));
            }
            ("items" | "additionalProperties", value) => update_in(value, original, reduced, lost),
            _ => {}
        }
    }
}

/// Returns each name in `definitions` with its name in the `$defs` into which they are merged. A name of `$defs` stays,
/// so another definition of the same name gets a prefix.
pub(super) fn merged_names(schema: &Map<String, Value>) -> Vec<(String, String)> {
    let names =
        |keyword: &str| schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let kept: BTreeSet<&String> = names("$defs").collect();
    let mut taken: BTreeSet<String> = names("$defs").chain(names("definitions")).cloned().collect();
    let merged = names("definitions").map(|name| {
        let mut merged = name.clone();
        if kept.contains(name) {
            while taken.contains(&merged) {
                merged.insert_str(0, "definitions_");
            }
            taken.insert(merged.clone());
        }
        (name.clone(), merged)
    });
    merged.collect()
}

/// Returns a reference with the new path of its target. `None` if the reduced schema lacks the target.
fn moved(reference: &str, original: &Value, reduced: &Value) -> Option<String> {
    let pointer = reference.strip_prefix('#')?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        // The name of an anchor, which the API knows.
        return Some(reference.to_owned());
    }
    let (mut before, mut after) = (original, reduced);
    let mut path = "#".to_owned();
    // Below `properties` and its like, a segment is a name and not a keyword.
    let mut is_schema = true;
    let mut segments = pointer.split('/').skip(1);
    while let Some(segment) = segments.next() {
        let name = unescaped(segment);
        if is_schema && name == "definitions" {
            let name = unescaped(segments.next()?);
            let (_, merged) = merged_names(before.as_object()?).into_iter().find(|(old, _)| *old == name)?;
            before = before.get("definitions")?.get(&*name)?;
            after = after.get("$defs")?.get(&merged)?;
            path.push_str("/$defs/");
            path.push_str(&merged.replace('%', "%25").replace('~', "~0").replace('/', "~1"));
            continue;
        }
        let inner = child(before, &name)?;
        let is_list = is_schema && name == "items" && inner.is_array();
        let (sent, key) = if is_list { ("prefixItems", "prefixItems") } else { (segment, &*name) };
        after = child(after, key)?;
        before = inner;
        path.push('/');
        path.push_str(sent);
        is_schema = !(is_schema && NAMED_SCHEMAS.contains(&&*name));
    }
    Some(path)
}

fn child<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    }
}

/// Returns the name that a segment of a reference escapes, as a fragment of a URL and as a JSON pointer.
fn unescaped(segment: &str) -> Cow<'_, str> {
    if !segment.contains(['%', '~']) {
        return Cow::Borrowed(segment);
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|code| *first == b'%' && code.iter().all(u8::is_ascii_hexdigit));
        let byte = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_follows_its_target_or_has_none() {
        let original = json!({
            "$defs": { "Id": { "type": "string" }, "A<B>": {}, "a/b": {} },
            "definitions": { "Id": { "type": "integer" }, "definitions_Id": {}, "A": { "definitions": { "B": {} } } },
            "properties": { "definitions": {}, "t": { "items": [{}] }, "u": { "items": {} }, "not": { "not": {} } },
        });
        let reduced = json!({
            "$defs": {
                "Id": { "type": "string" }, "A<B>": {}, "a/b": {}, "definitions_definitions_Id": { "type": "integer" },
                "definitions_Id": {}, "A": { "$defs": { "B": {} } },
            },
            "properties": { "definitions": {}, "t": { "prefixItems": [{}] }, "u": { "items": {} }, "not": {} },
        });
        for (reference, wanted) in [
            ("#", Some("#")),
            ("#anchor", Some("#anchor")),
            ("#/$defs/Id", Some("#/$defs/Id")),
            ("#/definitions/Id", Some("#/$defs/definitions_definitions_Id")),
            ("#/definitions/definitions_Id", Some("#/$defs/definitions_Id")),
            ("#/definitions/A/definitions/B", Some("#/$defs/A/$defs/B")),
            ("#/$defs/A%3CB%3E", Some("#/$defs/A%3CB%3E")),
            ("#/$defs/a~1b", Some("#/$defs/a~1b")),
            ("#/properties/definitions", Some("#/properties/definitions")),
            ("#/properties/t/items/0", Some("#/properties/t/prefixItems/0")),
            ("#/properties/u/items", Some("#/properties/u/items")),
            ("#/properties/not", Some("#/properties/not")),
            ("#/properties/not/not", None),
            ("#/properties/t/items/7", None),
            ("#/definitions", None),
            ("#/definitions/C", None),
            ("https://schema.test/x", None),
        ] {
            assert_eq!(moved(reference, &original, &reduced).as_deref(), wanted, "{reference}");
        }
    }

    #[test]
    fn odd_escapes_are_read_as_they_are() {
        for (segment, name) in
            [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%C3%A9", "é"), ("~01", "~1"), ("%+1", "%+1")]
        {
            assert_eq!(unescaped(segment), name);
        }
    }
}
