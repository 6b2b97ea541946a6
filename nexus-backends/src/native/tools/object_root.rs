//! Conversion of a tool's schema into one with a plain object at its root.
//!
//! Source: two rejections of a whole request. The Responses API: "schema must have type 'object' and not have
//! 'oneOf'/'anyOf'/'allOf'/'enum'/'const'/'not' at the top level"; the server of a subscription: "tool parameter root
//! must be an object type (root schema is an anyOf/oneOf union with a non-object branch)". Below the root nothing is
//! changed: recorded requests of the vendors' own programs contain unions, and `null` in an `enum`, there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Keywords that a root must not have.
const COMPOSITION: [&str; 7] = ["$ref", "allOf", "anyOf", "const", "enum", "not", "oneOf"];

/// Maximum number of schemas visited to build one root. It bounds references that fan out or form a cycle.
const MAX_SCHEMAS: usize = 256;

/// Maximum depth for [`complete`]. Source: the depth at which `serde_json` stops parsing.
const MAX_DEPTH: usize = 128;

/// Constraints of a schema on an object, as far as a merged root expresses them.
#[derive(Default)]
struct Members {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

/// State of the merge of one root.
struct Merge<'a> {
    document: &'a Value,
    schemas_left: usize,
    /// True if the merged root accepts more than the schema does.
    is_wider: bool,
}

/// Returns the types that a schema's `type` names; empty if it names none.
pub(super) fn types(schema: &Map<String, Value>) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns true if a schema is composed of other schemas, or lists single values.
pub(super) fn is_composed(schema: &Map<String, Value>) -> bool {
    COMPOSITION.iter().any(|keyword| schema.contains_key(*keyword))
}

/// Returns the root without the keywords that identify the document. Replaces a reference by its target.
pub(super) fn plain_root(schema: &Value) -> Map<String, Value> {
    let mut root = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..MAX_SCHEMAS {
        let reference = root.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|to| target(schema, to)).and_then(Value::as_object);
        // Replace the reference only if the root has no `properties` itself. Otherwise [`Merge`] merges the members of
        // both.
        let Some(target) = target.filter(|_| !root.contains_key("properties")) else { break };
        root.remove("$ref");
        for (keyword, value) in target {
            // Keywords beside the reference take precedence over those of its target.
            root.entry(keyword).or_insert_with(|| value.clone());
        }
    }
    for keyword in ["$schema", "$id", "$comment"] {
        root.remove(keyword);
    }
    root
}

/// Returns the schema of a tool's arguments with a plain object at its root, and the constraint that was lost.
pub(super) fn object_root(schema: &Value) -> (Map<String, Value>, Option<&'static str>) {
    let mut root = plain_root(schema);
    let mut lost = None;
    let names_another_type = !types(&root).is_empty() && !types(&root).contains(&"object");
    let is_any = matches!(schema, Value::Object(_) | Value::Bool(true) | Value::Null);
    if names_another_type || !is_any {
        root.clear();
        lost = Some("arguments are always an object; the offered schema accepts any object");
    } else if is_composed(&root) {
        let mut merge = Merge { document: schema, schemas_left: MAX_SCHEMAS, is_wider: false };
        let members = merge.members(&Value::Object(root.clone()));
        // One plain object cannot express these keywords.
        merge.is_wider |= ["const", "enum", "not"].iter().any(|keyword| root.contains_key(*keyword));
        root.retain(|keyword, _| !COMPOSITION.contains(&keyword.as_str()));
        match members {
            Some(members) => {
                members.write(&mut root);
                lost = merge.is_wider.then_some(
                    "its root is offered as one object, which accepts more than \
                    the tool does",
                );
            }
            None => lost = Some("no object fits its root; the offered schema accepts any object"),
        }
    }
    root.insert("type".to_owned(), json!("object"));
    complete(&mut root);
    (root, lost)
}

/// Adds `properties` to every object and `items` to every array. Without them the Responses API returns "object schema
/// missing properties" and "array schema missing items". The additions constrain nothing.
pub(super) fn complete(root: &mut Map<String, Value>) {
    complete_to(root, MAX_DEPTH);
}

fn complete_to(schema: &mut Map<String, Value>, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let types = types(schema);
    let lacks = |name: &str, keyword: &str| types.contains(&name) && !schema.contains_key(keyword);
    let (properties, items) = (lacks("object", "properties"), lacks("array", "items"));
    if properties {
        schema.insert("properties".to_owned(), json!({}));
    }
    if items {
        schema.insert("items".to_owned(), json!({}));
    }
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("items" | "additionalProperties" | "not", Value::Object(schema)) => complete_to(schema, depth),
            ("$defs" | "definitions" | "patternProperties" | "properties", Value::Object(named)) => {
                named.values_mut().filter_map(Value::as_object_mut).for_each(|each| complete_to(each, depth));
            }
            ("allOf" | "anyOf" | "oneOf" | "prefixItems", Value::Array(list)) => {
                list.iter_mut().filter_map(Value::as_object_mut).for_each(|each| complete_to(each, depth));
            }
            _ => {}
        }
    }
}

/// Returns the target of a reference within the document.
fn target<'a>(document: &'a Value, reference: &str) -> Option<&'a Value> {
    document.pointer(reference.strip_prefix('#')?)
}

impl Merge<'_> {
    /// Returns the constraints of `schema` on an object. `None` if no object fits the schema, or the limit of visited
    /// schemas is reached.
    fn members(&mut self, schema: &Value) -> Option<Members> {
        self.schemas_left = self.schemas_left.checked_sub(1)?;
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(true) => return Some(Members::default()),
            _ => return None,
        };
        if !types(schema).is_empty() && !types(schema).contains(&"object") {
            return None;
        }
        let list = |keyword: &str| schema.get(keyword).and_then(Value::as_array);
        let mut all = Members::of(schema);
        let referred = schema.get("$ref").and_then(Value::as_str).and_then(|to| target(self.document, to));
        for part in referred.into_iter().chain(list("allOf").into_iter().flatten()) {
            all.and(self.members(part)?);
        }
        for alternatives in ["anyOf", "oneOf"].into_iter().filter_map(list) {
            let any: Vec<_> = alternatives.iter().filter_map(|schema| self.members(schema)).collect();
            // The merged object also accepts properties of two alternatives at once.
            self.is_wider |= any.len() > 1;
            all.and(Members::of_any(any)?);
        }
        Some(all)
    }
}

impl Members {
    fn of(schema: &Map<String, Value>) -> Self {
        let required = schema.get("required").and_then(Value::as_array);
        Self {
            properties: schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default(),
            required: required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }

    /// Adds the constraints of another schema on the same object.
    fn and(&mut self, other: Self) {
        self.required.extend(other.required);
        for (name, property) in other.properties {
            match self.properties.get_mut(&name) {
                // Both constraints apply. Below the root, servers accept a composition.
                Some(known) if *known != property => *known = json!({ "allOf": [known, property] }),
                Some(_) => {}
                None => {
                    self.properties.insert(name, property);
                }
            }
        }
    }

    /// Returns the constraints on an object that fits at least one of the alternatives. They have the properties of all
    /// alternatives, and require a property only if each alternative requires it. `None` without alternatives.
    fn of_any(alternatives: Vec<Self>) -> Option<Self> {
        let required = alternatives.iter().map(|one| one.required.clone());
        let required = required.reduce(|one, two| &one & &two)?;
        let mut schemas: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for (name, property) in alternatives.into_iter().flat_map(|one| one.properties) {
            let known = schemas.entry(name).or_default();
            if !known.contains(&property) {
                known.push(property);
            }
        }
        let properties = schemas.into_iter().map(|(name, list)| (name, any_of(list))).collect();
        Some(Self { properties, required })
    }

    fn write(self, root: &mut Map<String, Value>) {
        root.insert("properties".to_owned(), Value::Object(self.properties));
        if !self.required.is_empty() {
            root.insert("required".to_owned(), json!(self.required));
        }
    }
}

/// Returns a schema that accepts a value of any of `schemas`. The tags of a tagged union become one `enum`, which every
/// server accepts.
fn any_of(mut schemas: Vec<Value>) -> Value {
    if schemas.len() == 1 {
        return schemas.remove(0);
    }
    let tags: Option<Vec<_>> =
        schemas.iter().map(|schema| schema.get("const").filter(|tag| tag.is_string())).collect();
    match tags {
        Some(tags) => json!({ "type": "string", "enum": tags }),
        None => json!({ "anyOf": schemas }),
    }
}
