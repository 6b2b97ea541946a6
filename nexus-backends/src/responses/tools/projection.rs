//! From a caller's schema to one that a server takes.
//!
//! In four steps, each over the whole schema: what is malformed is mended, references are put in place of
//! themselves, the root becomes that of an object, and the alternatives below it are merged. A step that the
//! rules do not ask for is left out. What comes out is left as it is by a second projection.

use std::{collections::BTreeSet, fmt};

use serde_json::{Map, Value, json};

use super::keywords::{Holds, TYPES, for_each_subschema, holds, shortened};
use super::{SchemaRules, keywords, merge, references, unions};

/// How deep a schema may be; what lies deeper admits anything. Source: our own bound.
pub(super) const MAX_DEPTH: usize = 48;

/// How many JSON values may be copied into the place of references, so that a small schema cannot become a huge
/// one. Source: our own bound.
const MAX_COPIED: usize = 20_000;

/// Something that a projected schema no longer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Loss {
    /// Where, as a JSON Pointer into the schema as it was at that step.
    place: String,
    what: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.place.is_empty() { "its root" } else { &self.place };
        write!(f, "at {}: {}", shortened(place), self.what)
    }
}

/// One projection while it is made.
#[derive(Debug)]
pub(super) struct Projection<'a> {
    pub(super) rules: &'a SchemaRules,
    /// The schema that references lead into.
    root: Value,
    /// Where in it a subschema stands, as JSON Pointers.
    places: BTreeSet<String>,
    left_to_copy: usize,
    /// What is being put in place of a reference to it. The root is, from the start.
    pub(super) open: Vec<String>,
    losses: Vec<Loss>,
}

impl Projection<'_> {
    /// Notes what is lost at `place`, once.
    pub(super) fn lose(&mut self, place: &str, what: impl Into<String>) {
        let loss = Loss { place: place.to_owned(), what: what.into() };
        if !self.losses.contains(&loss) {
            self.losses.push(loss);
        }
    }

    /// Where a reference leads: a pointer to a subschema of the root.
    pub(super) fn place_of(&self, reference: &str) -> Option<String> {
        references::pointers(reference).find(|pointer| self.places.contains(pointer))
    }

    /// A copy of what stands at `pointer`, if there is room for one more.
    pub(super) fn copy(&mut self, pointer: &str) -> Option<Value> {
        let target = self.root.pointer(pointer)?;
        self.left_to_copy = self.left_to_copy.checked_sub(weight(target))?;
        Some(target.clone())
    }

    /// What a reference leads to.
    pub(super) fn target(&self, reference: &str) -> Option<&Value> {
        self.root.pointer(&self.place_of(reference)?)
    }
}

fn weight(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(weight).sum(),
        Value::Object(map) => map.values().map(weight).sum(),
        _ => 0,
    }
}

/// Projects the schema of a tool's arguments.
pub(super) fn project(schema: &Value, rules: &SchemaRules) -> (Value, Vec<Loss>) {
    let (projected, losses) = project_root(schema, rules, true);
    (Value::Object(projected), losses)
}

/// Projects the schema of an answer, which need not be an object where the rules let any root stand.
pub(super) fn project_answer(schema: &Value, rules: &SchemaRules) -> (Value, Vec<Loss>) {
    let (projected, losses) = project_root(schema, rules, !rules.root_composition);
    (Value::Object(projected), losses)
}

/// Whether nothing but an object fits `schema`, as far as its shape tells.
pub(super) fn is_of_object(schema: &Value) -> bool {
    let (root, projection) = begin(schema, &SchemaRules::ANY);
    unions::is_object(&Value::Object(root), &projection, MAX_DEPTH)
}

/// The schema, well formed, and a projection that knows it.
fn begin<'a>(schema: &Value, rules: &'a SchemaRules) -> (Map<String, Value>, Projection<'a>) {
    let mut projection = Projection {
        rules,
        root: Value::Null,
        places: BTreeSet::from([String::new()]),
        left_to_copy: MAX_COPIED,
        open: vec![String::new()],
        losses: Vec::new(),
    };
    let mut root = match schema {
        Value::Object(root) => root.clone(),
        Value::Bool(true) | Value::Null => Map::new(),
        other => {
            let what = format!("{} is no schema of an object; any object is offered", quoted(other));
            projection.lose("", what);
            Map::new()
        }
    };
    // What names the document is of no use inside of a request.
    for keyword in ["$schema", "$id", "$comment"] {
        root.remove(keyword);
    }
    mend(&mut root, "", &mut projection, MAX_DEPTH);
    forget_dangling(&mut root, "", &mut projection);
    projection.root = Value::Object(root.clone());
    (root, projection)
}

fn project_root(schema: &Value, rules: &SchemaRules, as_object: bool) -> (Map<String, Value>, Vec<Loss>) {
    let (mut root, mut projection) = begin(schema, rules);
    // A reference into a part that is about to be merged away would lead nowhere.
    let inlines = !rules.references || (*rules != SchemaRules::ANY && references::leave_definitions(&root));
    if inlines {
        root = references::inlined_root(root, &mut projection);
        projection.root = Value::Object(root.clone());
    }
    if as_object {
        if !rules.root_composition && merge::is_composed(&root) {
            root = merge::flattened_root(root, &mut projection);
        }
        let types = keywords::types(&root);
        if !types.is_empty() && !types.contains(&"object") {
            let what = format!("arguments are always an object, not {}", types.join(" or "));
            projection.lose("/type", what);
        }
        keywords::set_types(&mut root, &["object"]);
        projection.root = Value::Object(root.clone());
    }
    unions::settle(&mut root, "", &mut projection, MAX_DEPTH, false);
    complete(&mut root);
    (root, projection.losses)
}

/// Takes out of `schema` what is not well formed, and notes where its subschemas stand.
fn mend(schema: &mut Map<String, Value>, place: &str, projection: &mut Projection<'_>, depth: usize) {
    let mut broken = Vec::new();
    for (keyword, value) in schema.iter_mut() {
        if !mend_value(keyword, value) {
            broken.push(keyword.clone());
        }
    }
    for keyword in broken {
        if let Some(value) = schema.remove(&keyword) {
            projection.lose(place, format!("{keyword:?} cannot be {}, and is left out", quoted(&value)));
        }
    }
    for_each_subschema(schema, place, |value, place| {
        projection.places.insert(place.to_owned());
        match (value, depth.checked_sub(1)) {
            (Value::Object(schema), Some(depth)) => mend(schema, place, projection, depth),
            (Value::Bool(_), _) => {}
            (value, None) => {
                projection.lose(place, "it lies too deep, so anything is admitted");
                *value = json!({});
            }
            (value, _) => {
                projection.lose(place, format!("{} is no schema, so anything is admitted", quoted(value)));
                *value = json!({});
            }
        }
    });
}

/// Mends what stands behind one keyword, or says that it is beyond mending.
fn mend_value(keyword: &str, value: &mut Value) -> bool {
    let is_list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
    match (keyword, holds(keyword)) {
        (_, Holds::Schema) => value.is_object() || value.is_boolean() || is_list(value),
        (_, Holds::Named) => value.is_object(),
        (_, Holds::List) | ("enum", _) => is_list(value),
        ("type", _) => match value {
            Value::Array(names) => {
                keep_each_once(names);
                !names.is_empty() && names.iter().all(is_type)
            }
            name => is_type(name),
        },
        ("required", _) => match value {
            Value::Array(names) => {
                keep_each_once(names);
                names.iter().all(Value::is_string)
            }
            _ => false,
        },
        ("$ref" | "description" | "format" | "pattern" | "title", _) => value.is_string(),
        _ => true,
    }
}

fn is_type(name: &Value) -> bool {
    name.as_str().is_some_and(|name| TYPES.contains(&name))
}

fn keep_each_once(list: &mut Vec<Value>) {
    let mut seen = BTreeSet::new();
    list.retain(|value| seen.insert(value.to_string()));
}

/// Takes out references that lead to no subschema, another document included.
fn forget_dangling(schema: &mut Map<String, Value>, place: &str, projection: &mut Projection<'_>) {
    let leads = |reference: &str| projection.place_of(reference).is_some();
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str).filter(|name| !leads(name)) {
        let what = format!("the reference {:?} leads nowhere, so anything is admitted", shortened(reference));
        projection.lose(place, what);
        schema.remove("$ref");
    }
    for_each_subschema(schema, place, |value, place| {
        if let Value::Object(schema) = value {
            forget_dangling(schema, place, projection);
        }
    });
}

/// Gives every object `properties` and every array `items`. They say nothing that was not so before.
fn complete(schema: &mut Map<String, Value>) {
    let types = keywords::types(schema);
    let lacks = |name: &str, keyword: &str| types.contains(&name) && !schema.contains_key(keyword);
    let (properties, items) = (lacks("object", "properties"), lacks("array", "items"));
    if properties {
        schema.insert("properties".to_owned(), json!({}));
    }
    if items {
        schema.insert("items".to_owned(), json!({}));
    }
    for_each_subschema(schema, "", |value, _| {
        if let Value::Object(schema) = value {
            complete(schema);
        }
    });
}

fn quoted(value: &Value) -> String {
    shortened(&value.to_string())
}
