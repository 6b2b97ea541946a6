//! Follows a path argument's pointer through the schema of a tool's arguments, and checks the keys of the
//! objects that it passes.
//!
//! A schema that describes no keys of an object allows any key. A schema that describes some keys, without
//! `additionalProperties`, is treated as closed here, although JSON Schema itself would allow other keys.

use serde_json::{Map, Value};

/// Longest key in a message, in bytes. Source: our own bound.
const MAX_KEY_BYTES: usize = 100;

/// Keywords by which a schema describes the keys of an object.
const KEYS: [&str; 4] = ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties"];

/// Keywords by which a schema describes the items of a list.
const ITEMS: [&str; 3] = ["items", "prefixItems", "additionalItems"];

/// Keywords by which a schema includes other schemas.
const PARTS: [&str; 6] = ["$ref", "anyOf", "oneOf", "allOf", "then", "else"];

/// Returns true if the schema `root` allows a value at `pointer`, as far as its shape shows.
pub(super) fn leads_somewhere(root: &Value, pointer: &str) -> bool {
    let mut here = ApplicableSchemas::of(root, [root]);
    for step in pointer.split('/').skip(1) {
        here = here.step(step);
        if here.is_nowhere() {
            return false;
        }
    }
    true
}

/// Checks the objects that `pointer` passes through for keys that the schema `root` does not have.
///
/// # Errors
///
/// The unknown key and its position, for the model.
pub(super) fn check_keys(arguments: &Value, root: &Value, pointer: &str) -> Result<(), String> {
    let steps: Vec<&str> = pointer.split('/').skip(1).collect();
    check(arguments, &ApplicableSchemas::of(root, [root]), &steps, "")
}

/// Checks `value`, which is at `place`. `steps` are the remaining steps of the pointer.
fn check(value: &Value, here: &ApplicableSchemas<'_>, steps: &[&str], place: &str) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else { return Ok(()) };
    let on = |key: &str, value: &Value| {
        let key = key.replace('~', "~0").replace('/', "~1");
        check(value, &here.step(&key), rest, &format!("{place}/{key}"))
    };
    match value {
        Value::Object(fields) => {
            if let Some(strange) = fields.keys().find(|key| !here.has_key(key)) {
                let shown = &strange[..strange.floor_char_boundary(MAX_KEY_BYTES)];
                let at = if place.is_empty() { String::new() } else { format!("at {place}: ") };
                return Err(format!("{at}unknown key {shown:?}; leave it out, or correct its name"));
            }
            let mut wanted = fields.iter().filter(|(key, _)| *step == "*" || **key == unescaped(step));
            wanted.try_for_each(|(key, field)| on(key, field))
        }
        Value::Array(items) => {
            let mut wanted =
                items.iter().enumerate().filter(|(index, _)| *step == "*" || step.parse() == Ok(*index));
            wanted.try_for_each(|(index, item)| on(&index.to_string(), item))
        }
        _ => Ok(()),
    }
}

fn unescaped(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// Schemas that may apply at one position in a value.
struct ApplicableSchemas<'s> {
    root: &'s Value,
    schemas: Vec<&'s Map<String, Value>>,
    /// True if any value is allowed at the position.
    is_open: bool,
}

impl<'s> ApplicableSchemas<'s> {
    fn of(root: &'s Value, schemas: impl IntoIterator<Item = &'s Value>) -> Self {
        let mut reach = Self { root, schemas: Vec::new(), is_open: false };
        for schema in schemas {
            reach.add(schema);
        }
        reach
    }

    /// Adds a schema, with all schemas that it references or includes.
    fn add(&mut self, schema: &'s Value) {
        let object = match schema {
            Value::Object(object) if !object.is_empty() => object,
            Value::Bool(false) => return,
            _ => return self.is_open = true,
        };
        // Skip a schema that is already in the list, because schemas may refer to themselves.
        if self.schemas.iter().any(|known| std::ptr::eq(*known, object)) {
            return;
        }
        self.schemas.push(object);
        for keyword in ["anyOf", "oneOf", "allOf"] {
            for part in object.get(keyword).and_then(Value::as_array).into_iter().flatten() {
                self.add(part);
            }
        }
        for part in ["then", "else"].into_iter().filter_map(|keyword| object.get(keyword)) {
            self.add(part);
        }
        if let Some(target) = object.get("$ref") {
            let target = target.as_str().and_then(|path| path.strip_prefix('#'));
            match target.and_then(|path| self.root.pointer(path)) {
                Some(target) => self.add(target),
                // The reference leads to another document, so any value is possible.
                None => self.is_open = true,
            }
        }
    }

    fn is_nowhere(&self) -> bool {
        !self.is_open && self.schemas.is_empty()
    }

    /// Returns the target of one step of a pointer.
    fn step(&self, step: &str) -> Self {
        let (key, index) = (unescaped(step), step.parse::<usize>().ok());
        let is_any = step == "*";
        let mut found = Vec::new();
        for schema in &self.schemas {
            let all = |keyword: &str| {
                schema.get(keyword).and_then(Value::as_object).into_iter().flat_map(Map::values)
            };
            match schema.get("properties").and_then(Value::as_object) {
                Some(fields) if !is_any => found.extend(fields.get(&key)),
                _ => found.extend(all("properties")),
            }
            // Patterns are not evaluated: each of them may match the key.
            found.extend(all("patternProperties"));
            found.extend(schema.get("additionalProperties"));
            found.extend(schema.get("unevaluatedProperties"));
            if is_any || index.is_some() {
                let first = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
                let numbered = first.enumerate().filter(|(place, _)| is_any || index == Some(*place));
                found.extend(numbered.map(|(_, item)| item));
                found.extend(schema.get("items").filter(|items| !items.is_array()));
                found.extend(schema.get("additionalItems"));
            }
        }
        let mut next = Self::of(self.root, found);
        next.is_open |= self.is_open || self.is_silent("object", &KEYS);
        next.is_open |= (is_any || index.is_some()) && self.is_silent("array", &ITEMS);
        next
    }

    /// Returns true if an object at this position may have this key.
    fn has_key(&self, key: &str) -> bool {
        let says = |schema: &&Map<String, Value>| {
            let is_named = schema.get("properties").is_some_and(|fields| fields.get(key).is_some());
            let others = KEYS.iter().skip(1).filter_map(|keyword| schema.get(*keyword));
            is_named || others.into_iter().any(|others| *others != Value::Bool(false))
        };
        self.is_open || self.is_silent("object", &KEYS) || self.schemas.iter().any(says)
    }

    /// Returns true if a value of type `kind` is allowed at this position and no schema describes its
    /// content.
    fn is_silent(&self, kind: &str, keywords: &[&str]) -> bool {
        let speaks =
            |schema: &Map<String, Value>| keywords.iter().any(|keyword| schema.contains_key(*keyword));
        let admits = |schema: &Map<String, Value>| {
            let by_type = match schema.get("type") {
                Some(Value::Array(types)) => types.iter().any(|name| name == kind),
                Some(name) => name == kind,
                None => true,
            };
            by_type && !PARTS.iter().any(|keyword| schema.contains_key(*keyword))
        };
        !self.schemas.iter().any(|schema| speaks(schema)) && self.schemas.iter().any(|schema| admits(schema))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::tool::schema;

    #[derive(PartialEq, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    struct Work {
        path: String,
        paths: Vec<String>,
        pairs: Vec<Pair>,
        by_name: BTreeMap<String, Pair>,
        maybe: Option<Pair>,
        tree: Tree,
        kind: Kind,
        two: (String, u8),
        anything: Value,
    }

    #[derive(PartialEq, Deserialize, JsonSchema)]
    struct Pair {
        from: String,
        #[serde(rename = "to/~")]
        to: Option<String>,
    }

    #[derive(PartialEq, Deserialize, JsonSchema)]
    struct Tree {
        path: String,
        children: Vec<Tree>,
    }

    #[derive(PartialEq, Deserialize, JsonSchema)]
    enum Kind {
        Plain,
        File { path: String },
        Open(BTreeMap<String, u8>),
    }

    #[test]
    fn a_pointer_leads_where_the_type_has_something() {
        let schema = schema::of::<Work>();
        for pointer in [
            "/path",
            "/paths",
            "/paths/*",
            "/paths/3",
            "/pairs/*/from",
            "/pairs/0/to~1~0",
            "/by_name/*/from",
            "/by_name/x/from",
            "/by_name/3/from",
            "/maybe/from",
            "/tree/children/*/children/*/path",
            "/kind/File/path",
            "/two/0",
            "/two/*",
            "/anything/at/all",
            "/*/from",
        ] {
            assert!(leads_somewhere(&schema, pointer), "{pointer}");
        }
        for pointer in [
            "/pth",
            "/",
            "/path/x",
            "/paths/x",
            "/pairs/from",
            "/pairs/*/form",
            "/by_name/*/form",
            "/maybe/*/x",
            "/tree/children/*/child/*/path",
            "/tree/childs/0",
            "/kind/Files/path",
            "/kind/File/paths",
            "/two/2",
        ] {
            assert!(!leads_somewhere(&schema, pointer), "{pointer}");
        }
        assert!(!leads_somewhere(&schema::of_nothing(), "/path"));
    }

    #[test]
    fn a_schema_that_is_too_open_to_tell_is_believed() {
        for open in [
            json!(true),
            json!({ "type": "object" }),
            json!({ "type": "object", "properties": { "b": {} }, "additionalProperties": true }),
            json!({ "properties": { "a": {} } }),
            json!({ "$ref": "#/nowhere" }),
            json!({ "anyOf": [{ "type": "null" }, { "type": ["object", "null"] }] }),
            json!({ "patternProperties": { "^a": { "type": "object" } } }),
        ] {
            assert!(leads_somewhere(&open, "/a/b"), "{open}");
        }
        let again = json!({ "$ref": "#" });
        let endless =
            json!({ "properties": { "a": again }, "anyOf": [again, again, { "allOf": [again, again] }] });
        assert!(leads_somewhere(&endless, "/a/a/a") && !leads_somewhere(&endless, "/a/b"));
        let shut =
            json!({ "properties": { "b": {} }, "anyOf": [{ "required": ["b"] }, { "required": ["c"] }] });
        assert!(!leads_somewhere(&shut, "/a"));
    }

    #[test]
    fn a_key_that_the_type_does_not_have_is_told_with_its_place() {
        let schema = schema::of::<Work>();
        let strange = |pointer: &str, arguments: Value| check_keys(&arguments, &schema, pointer);
        let told = strange("/path", json!({ "file_path": "x" })).unwrap_err();
        assert!(told.starts_with("unknown key \"file_path\"; "), "{told}");
        for (pointer, arguments, place) in [
            ("/pairs/*/from", json!({ "pairs": [{ "from": "x" }, { "source": "x" }] }), "at /pairs/1: "),
            ("/by_name/*/from", json!({ "by_name": { "a/b": { "source": "x" } } }), "at /by_name/a~1b: "),
            ("/maybe/from", json!({ "maybe": { "source": "x" } }), "at /maybe: "),
            ("/kind/File/path", json!({ "kind": { "Document": { "path": "x" } } }), "at /kind: "),
            (
                "/tree/children/*/path",
                json!({ "tree": { "children": [{ "file": "x" }] } }),
                "at /tree/children/0: ",
            ),
        ] {
            let told = strange(pointer, arguments.clone());
            assert!(told.unwrap_err().starts_with(place), "{arguments}");
        }
        for arguments in [
            json!({ "pairs": [{ "from": "x", "to/~": "y" }], "path": { "odd": 1 }, "anything": { "odd": 1 } }),
            json!({ "pairs": null }),
            json!([1]),
        ] {
            assert_eq!(strange("/pairs/*/from", arguments), Ok(()));
        }
        let long = strange("/path", json!({ "k".repeat(10_000): 1 })).unwrap_err();
        assert!(long.len() < 300, "{} bytes", long.len());
    }
}
