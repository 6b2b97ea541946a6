//! What editors are told agrees with what is loaded.

use std::sync::Arc;

use nexus_router::{Router, json_schema};
use serde_json::Value;

use super::{
    pools::Machines,
    support::{context, registry},
};

fn is_valid(text: &str) -> bool {
    let value: Value = serde_yaml::from_str(text).unwrap();
    let validator = jsonschema::validator_for(&json_schema(&registry())).unwrap();
    validator.is_valid(&value)
}

fn loads(text: &str) -> bool {
    Router::from_str(text, registry(), context()).is_ok()
}

#[test]
fn a_good_file_is_good_to_both() {
    let good = [
        "groups: { one: [alpha-cli, gamma-cli] }\n",
        "groups: { one: [alpha-cli] }\nbackends:\n  alpha-cli:\n  gamma-cli: { what: ever }\n",
        "backends: { mine: { kind: beta-native, base_url: \"http://x\", max_turns_at_once: 3 } }\n",
        "groups: { one: [alpha-cli] }\nmodels: { m: { one: x } }\ntypes: { t: { group: one, model: m } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { group: one, model: { exact: x }, fallback: never } }\n",
        "groups: { one: [alpha-cli], two: [beta-cli] }\ntypes: { t: { panel: p, tier: a, phase: b } }\n\
         panels: { p: [ { group: one, lens: l }, { group: two, effort: xhigh } ] }\nlenses: { l: look }\n",
        "groups: { one: [alpha-cli] }\npanels: { p: { min_vendors: 1, seats: [ { group: one } ] } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { group: one, fallback: restore } }\n",
        "budgets: { a: { per: day, usd: 2.5 }, b: { per: month, each: task, tokens: 5 }, c: { per: hour, agent: x, turns: 1 } }\n",
        "budgets:\ngroups:\nbackends:\nmodels:\ntypes:\npanels:\nlenses:\n",
    ];
    for text in good {
        assert!(loads(text), "{text}");
        assert!(is_valid(text), "{text}");
    }
}

#[test]
fn a_file_of_the_wrong_shape_is_wrong_to_both() {
    let wrong = [
        "gruops: {}\n",
        "budgets: { a: { per: day } }\n",
        "budgets: { a: { usd: 1 } }\n",
        "budgets: { a: { per: year, usd: 1 } }\n",
        "budgets: { a: { per: day, usd: 0 } }\n",
        "budgets: { a: { per: day, tokens: 1.5 } }\n",
        "budgets: { a: { per: day, each: model, turns: 1 } }\n",
        "groups: { one: [] }\n",
        "groups: { one: alpha-cli }\n",
        "groups: { one: [alpha-cli, alpha-cli] }\n",
        "backends: { alpha-cli: { base_ulr: x } }\n",
        "backends: { mine: { kind: beta-native, base_ulr: x } }\n",
        "backends: { mine: { kind: alpha-cil } }\n",
        "backends: { alpha-cli: { kind: beta-cli } }\n",
        "backends: { alpha-cli: { max_turns_at_once: 0 } }\n",
        "backends: { alpha-cli: { parked: true } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { tier: a, group: one } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { effort: high } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { group: one, effort: hihg } }\n",
        "groups: { one: [alpha-cli] }\ntypes: { t: { group: one, model: {} } }\n",
        "groups: { one: [alpha-cli], two: [beta-cli] }\ntypes: { t: { panel: p, effort: max } }\n\
         panels: { p: [ { group: one }, { group: two } ] }\n",
        "panels: { p: [] }\n",
        "panels: { p: { min_vendors: 1 } }\n",
        "groups: { one: [alpha-cli] }\npanels: { p: { min_vendors: 0, seats: [ { group: one } ] } }\n",
        "groups: { one: [alpha-cli] }\npanels: { p: { seat: [ { group: one } ] } }\n",
        "panels: { p: [ { lens: l } ] }\nlenses: { l: look }\n",
        "lenses: { l: [look] }\n",
    ];
    for text in wrong {
        assert!(!loads(text), "{text}");
        assert!(!is_valid(text), "{text}");
    }
}

#[test]
fn the_pool_of_a_backend_is_checked_alike() {
    let machines = || registry().with_pools(Arc::new(Machines::default()));
    let validator = jsonschema::validator_for(&json_schema(&machines())).unwrap();
    let agreed = |entry: &str| {
        let text = format!("fleet: {{ servers: [near] }}\nbackends: {{ {entry} }}\n");
        let is_valid = validator.is_valid(&serde_yaml::from_str(&text).unwrap());
        let loads = Router::from_str(&text, machines(), context()).is_ok();
        assert_eq!(loads, is_valid, "{text}");
        loads
    };
    let longest = "a".repeat(64);
    for pool in ["builders", "A-1_b", &longest] {
        assert!(agreed(&format!("alpha-cli: {{ pool: {pool} }}")), "{pool}");
        assert!(agreed(&format!("mine: {{ kind: beta-cli, pool: {pool} }}")), "{pool}");
    }
    let too_long = "a".repeat(65);
    for pool in ["''", "a.b", "'a b'", "'*'", "7", "[a]", "{}", &too_long] {
        assert!(!agreed(&format!("alpha-cli: {{ pool: {pool} }}")), "{pool}");
    }
    // A program without pools of its own passes the section over.
    assert!(is_valid("fleet: { whatever: [1] }\n") && loads("fleet: { whatever: [1] }\n"));
}

fn at_the_root(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::fs::read_to_string(root.join(name)).unwrap()
}

#[test]
fn the_published_schema_accepts_the_example_and_refuses_a_slip_in_it() {
    let schema: Value = serde_json::from_str(&at_the_root("nexus.schema.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let is_valid = |text: &str| validator.is_valid(&serde_yaml::from_str::<Value>(text).unwrap());
    let example = at_the_root("nexus.yaml.example");
    assert!(is_valid(&example));
    for (from, to) in
        [("effort: high", "effort: hihg"), ("\ngroups:", "\ngruops:"), ("  codex-cli:\n", "  codex-cli: 7\n")]
    {
        assert!(example.contains(from));
        assert!(!is_valid(&example.replacen(from, to, 1)), "{to}");
    }
}
