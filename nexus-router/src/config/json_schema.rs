//! JSON Schema of `nexus.yaml`, for completion and error checks in editors.
//!
//! The schema covers only the shape. References between names are checked when the file is loaded.

use std::sync::Arc;

use nexus_core::{BackendKind, Effort, Registry};
use serde_json::{Map, Value, json};

use super::{
    configuration::DEFAULT_MIN_VENDORS,
    schema::{Distinct, EXTENSION_PREFIX, FallbackRule, MAX_POOL_NAME, OTHER_SECTIONS},
};
use crate::spending::{BudgetPeriod, BudgetSubject};

/// JSON Schema (draft 2020-12) of `nexus.yaml`, with the settings of every kind and every section of the registry.
pub fn json_schema(registry: &Registry) -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "nexus.yaml",
        "description": "Selects the backend of each turn: groups of backends, their names for each model, \
            and the binding of each kind of work.",
        "type": "object",
        "additionalProperties": false,
        "patternProperties": {
            (format!("^{EXTENSION_PREFIX}")): { "description": "Free for the writer of the file, such as values with anchors." },
        },
        "properties": {
            "groups": section("Ordered fallback chains. Only the listed backends run.", &json!({
                "type": "array",
                "minItems": 1,
                "uniqueItems": true,
                "items": name("A backend: the name of a kind, or one from `backends`."),
            })),
            "backends": backends(registry),
            "models": section("A portable name, with the name of the model on each backend, group or vendor. \
                The first match counts.", &json!({
                "type": "object",
                "additionalProperties": name("Name of the model on this backend, group or vendor."),
            })),
            "types": section("Kinds of work, and the group or panel that runs each.", &work_type()),
            "panels": section("Rosters of seats whose turns run in parallel.", &panel()),
            "budgets": section("Bounds of what turns spend in an hour, a day or a month. A turn that does not fit does not start.", &budget()),
            "lenses": section("Focus of a seat, as text that follows the system text.", &json!({
                "type": "string",
                "minLength": 1,
            })),
        },
    });
    for name in OTHER_SECTIONS {
        schema["properties"][*name] = json!({ "type": ["object", "null"] });
    }
    for section in registry.sections() {
        let mut value = section.schema();
        value["type"] = json!(["object", "null"]);
        schema["properties"][section.name()] = value;
    }
    schema
}

fn section(description: &str, values: &Value) -> Value {
    json!({ "description": description, "type": ["object", "null"], "additionalProperties": values })
}

fn name(description: &str) -> Value {
    json!({ "description": description, "type": "string", "minLength": 1 })
}

fn work_type() -> Value {
    let mut properties = binding_properties();
    properties.insert("tier".into(), name("Level of the work. Requires `phase`."));
    properties.insert("phase".into(), name("Step of the work. Requires `tier`."));
    properties.insert("panel".into(), name("A name from `panels`, instead of `group`."));
    let rules = FallbackRule::ALL.map(FallbackRule::as_str);
    properties.insert(
        "fallback".into(),
        json!({
            "description": "Condition for another backend to take over a turn.",
            "enum": rules,
            "default": FallbackRule::default().as_str(),
        }),
    );
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "dependentRequired": { "tier": ["phase"], "phase": ["tier"] },
        "oneOf": [
            { "required": ["group"] },
            { "required": ["panel"], "properties": { "model": false, "effort": false } },
        ],
    })
}

fn panel() -> Value {
    let seats = json!({ "type": "array", "minItems": 1, "items": seat() });
    let min_vendors = json!({
        "description": "Minimum number of vendors that must answer. Write 1 to accept a single vendor.",
        "type": "integer",
        "minimum": 1,
        "default": DEFAULT_MIN_VENDORS,
    });
    let distinct = json!({
        "description": "Rule for distinct vendors. address: their names and the addresses of their servers, \
                        which are resolved when a task starts. vendor: only their names, for a server that \
                        serves several vendors. Default: their names, with a warning for a shared address.",
        "enum": Distinct::ALL.map(Distinct::as_str),
    });
    let mapping = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": { "min_vendors": min_vendors, "distinct": distinct, "seats": seats },
        "required": ["seats"],
    });
    json!({ "oneOf": [seats, mapping] })
}

fn budget() -> Value {
    let mut properties = Map::new();
    properties.insert(
        "per".into(),
        json!({
            "description": "Period after which the budget begins again, in the time zone of the user.",
            "enum": BudgetPeriod::ALL.map(BudgetPeriod::as_str),
        }),
    );
    properties.insert(
        "each".into(),
        json!({
            "description": "Property of which each value has the whole budget, such as each task. Default: all turns share it.",
            "enum": BudgetSubject::ALL.map(BudgetSubject::as_str),
        }),
    );
    for subject in BudgetSubject::ALL {
        let subject = subject.as_str();
        properties.insert(subject.into(), name(&format!("Counts only turns of this {subject}.")));
    }
    let usd = "Most United States dollars. Turns whose cost is unknown count in tokens alone.";
    properties.insert("usd".into(), json!({ "description": usd, "type": "number", "exclusiveMinimum": 0 }));
    for (bound, description) in
        [("tokens", "Most tokens, with those of the vendor's cache."), ("turns", "Most turns.")]
    {
        properties
            .insert(bound.into(), json!({ "description": description, "type": "integer", "minimum": 1 }));
    }
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": ["per"],
        "anyOf": [{ "required": ["usd"] }, { "required": ["tokens"] }, { "required": ["turns"] }],
    })
}

fn seat() -> Value {
    let mut properties = binding_properties();
    properties.insert("lens".into(), name("A name from `lenses`."));
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": ["group"],
    })
}

fn binding_properties() -> Map<String, Value> {
    let mut properties = Map::new();
    properties.insert("group".into(), name("A name from `groups`."));
    properties.insert(
        "model".into(),
        json!({
            "description": "A name from `models`, or the vendor's own name as `{ exact: name }`. Default: the backend's choice.",
            "oneOf": [
                { "type": "string", "minLength": 1 },
                {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": { "exact": name("The model, as the vendor names it.") },
                    "required": ["exact"],
                },
            ],
        }),
    );
    properties.insert(
        "effort".into(),
        json!({
            "description": "Reasoning effort of the model. Default: the vendor's choice.",
            "enum": Effort::ALL.map(Effort::as_str),
        }),
    );
    properties
}

/// Returns the schema of `backends`. An entry named like a kind takes that kind's settings; other entries name
/// their kind.
fn backends(registry: &Registry) -> Value {
    let mut named = Map::new();
    let mut by_kind = Vec::new();
    for kind in registry.kinds() {
        let settings = kind.settings_schema();
        named.insert(kind.name().to_owned(), backend(&settings, kind.name(), false));
        by_kind.push(backend(&settings, kind.name(), true));
    }
    let described: Vec<&str> = registry.kinds().map(|kind| kind.name()).collect();
    for absent in registry.names().filter(|name| !described.contains(name)) {
        named.insert(absent.to_owned(), json!({ "type": ["object", "null"] }));
        by_kind.push(json!({
            "type": "object",
            "properties": { "kind": { "const": absent } },
            "required": ["kind"],
        }));
    }
    by_kind.extend(by_provider(registry));
    // The last alternative is a backend that the program registers, which has no kind.
    by_kind.push(json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": common_properties(),
    }));
    json!({
        "description": "Settings of backends, and new instances of a kind. A backend without settings needs \
            no entry.",
        "type": ["object", "null"],
        "properties": named,
        "additionalProperties": { "anyOf": by_kind },
    })
}

/// Returns the schema of entries that name a provider, by the provider's kind. The file may add providers, so any name is valid.
fn by_provider(registry: &Registry) -> Vec<Value> {
    let Some(providers) = registry.providers() else { return Vec::new() };
    let rows = providers.list(None);
    let of_kind = |kind: &Arc<dyn BackendKind>| {
        let rows = || rows.iter().filter(|row| row.wire == kind.name());
        let names: Vec<&str> = rows().map(|row| row.name.as_str()).collect();
        if names.is_empty() {
            return None;
        }
        let mut schema = backend(&kind.settings_schema(), kind.name(), false);
        for parameter in rows().flat_map(|row| &row.parameters) {
            schema["properties"][parameter] = name("Part of the provider's address.");
        }
        schema["properties"]["provider"] = json!({
            "description": "Provider whose row completes the settings: one of this list, or of `providers`.",
            "anyOf": [{ "enum": names }, { "type": "string", "minLength": 1 }],
        });
        schema["type"] = json!("object");
        schema["required"] = json!(["provider"]);
        // An entry with a provider of the file may have further parameters.
        schema["additionalProperties"] = json!({ "type": "string" });
        Some(schema)
    };
    registry.kinds().filter_map(of_kind).collect()
}

fn backend(settings: &Value, kind: &str, kind_is_required: bool) -> Value {
    let mut properties = settings.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties.append(&mut common_properties());
    properties.insert("kind".into(), json!({ "const": kind }));
    let mut required: Vec<Value> =
        settings.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut types = vec!["object"];
    if kind_is_required {
        required.push(json!("kind"));
    } else if required.is_empty() {
        types.push("null");
    }
    let mut schema = Map::new();
    // Copy everything else of a kind's settings schema, such as definitions.
    for (key, value) in settings.as_object().into_iter().flatten() {
        schema.insert(key.clone(), value.clone());
    }
    schema.insert("type".into(), json!(types));
    schema.insert("properties".into(), Value::Object(properties));
    schema.insert("required".into(), Value::Array(required));
    schema.insert("additionalProperties".into(), json!(false));
    Value::Object(schema)
}

fn common_properties() -> Map<String, Value> {
    let mut properties = Map::new();
    properties.insert("parked".into(), name("Reason why the backend is not used at present."));
    properties.insert(
        "max_turns_at_once".into(),
        json!({ "description": "Maximum number of parallel turns; further turns wait. Default: no limit.", "type": "integer", "minimum": 1 }),
    );
    properties.insert(
        "pool".into(),
        json!({
            "description": "Pool of workers on other machines that runs its turns. Default: this machine.",
            "type": "string",
            "pattern": format!("^[A-Za-z0-9_-]{{1,{MAX_POOL_NAME}}}$"),
        }),
    );
    properties
}
