//! `nexus.yaml.example` is a configuration, and `nexus.schema.json` is its schema.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use nexus::{BuildContext, FleetPools, Registry, Router};
use nexus_broker::BrokerSection;
use nexus_debates::DebateSection;
use nexus_tasks::TasksSection;
use nexus_testbed::{Arm, ArmContext, Trap};
use serde_json::Value;

use crate::serve_settings::ServeSection;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(name: &str) -> String {
    fs::read_to_string(repository().join(name)).unwrap_or_default()
}

/// All that the `nexus` command reads.
fn registry() -> Registry {
    nexus::registry()
        .with_section(Arc::new(TasksSection))
        .with_section(Arc::new(DebateSection))
        .with_section(Arc::new(BrokerSection))
        .with_section(Arc::new(ServeSection))
        .with_pools(Arc::new(FleetPools::new()))
}

fn load(text: &str) -> Router {
    Router::from_str(text, registry(), BuildContext::in_home("home"))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The example with every key that it only shows put in force.
fn uncommented(example: &str) -> String {
    let shown = |line: &str| {
        let (indent, rest) = line.split_at(line.find('#').unwrap_or(line.len()));
        let key = rest.trim_start_matches(['#', ' ']).split(':').next().unwrap_or_default();
        let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        let is_shown = !indent.is_empty() && indent.trim().is_empty() && is_key && rest.contains(':');
        is_shown.then(|| format!("{indent}{}", rest.trim_start_matches("# ")))
    };
    example.lines().map(|line| shown(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn the_example_loads_and_parks_nothing() {
    let example = read("nexus.yaml.example");
    let router = load(&example);
    assert_eq!(
        router.kinds(),
        [
            "orchestrator",
            "executor",
            "reviewer",
            "reflector",
            "cartographer",
            "framer",
            "panelist",
            "arbiter"
        ]
    );
    for kind in router.kinds() {
        let explained = router.explain(kind.as_str()).unwrap().to_string();
        assert!(!explained.contains("parked"), "{explained}");
    }
}

#[test]
fn the_example_loads_where_no_program_brings_its_sections_along_and_is_an_arm_of_an_experiment() {
    let example = read("nexus.yaml.example");
    let router = Router::from_str(&example, nexus::registry(), BuildContext::in_home("home"));
    let router = router.unwrap_or_else(|error| panic!("{error}"));
    for section in registry().sections() {
        assert!(example.contains(&format!("\n{}:\n", section.name())), "{}", section.name());
        // The servers of a fleet and of turns are somebody's own, so that the example can only show them.
        let is_in_force = !["fleet", "mcp_servers"].contains(&section.name());
        assert_eq!(router.section(section.name()).is_some(), is_in_force, "{}", section.name());
    }
    let arm = Arm::load("mine", &repository().join("nexus.yaml.example")).unwrap();
    let trap = Arc::new(Trap::built_in().unwrap().remove(0));
    let context =
        ArmContext { registry: nexus::registry(), build: BuildContext::in_home("home"), spending: None };
    arm.router(&trap, &context).unwrap_or_else(|error| panic!("{error}"));
    let misspelt = Router::from_str("debat: {}\n", nexus::registry(), BuildContext::in_home("home"));
    let error = misspelt.map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(r#""debat"; did you mean "debate"?"#), "{error}");
}

#[test]
fn the_keys_that_the_example_only_shows_are_right_too() {
    let example = read("nexus.yaml.example");
    let all = uncommented(&example);
    // A credential comes from one place, and an agent is a known one or a program.
    let others = [
        "    env: ",
        "    keyring: ",
        "    source: ",
        "    aws: ",
        // A service has no plan, and each has its own settings.
        "    service: bedrock ",
        "    region: us-east-1 ",
        "    project: my-project ",
        // A signature needs a parameter that the row does not have.
        "    sigv4: { service: bedrock } ",
        "    command: ",
        "    ttl: 50m",
        "    timeout: 30s",
        "    environment: [CLOUDSDK_CONFIG]",
        "    nkey_file: ",
        "    password: ",
    ];
    // A program of `mcp_servers` is no credential.
    let is_kept = |line: &&str| line.contains("[npx") || !others.iter().any(|other| line.contains(other));
    let all: String = all.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    let router = load(&all);
    assert!(router.explain("orchestrator").unwrap().to_string().contains("parked: why it is not to be used"));
}

#[test]
fn the_configurations_of_the_pages_load() {
    let mut blocks = 0;
    for page in [
        "README.md",
        "docs/start/configuration.md",
        "docs/guide/routing.md",
        "docs/guide/broker.md",
        "docs/guide/mcp-servers.md",
    ] {
        let text = read(page);
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            // A part of a page is put into a whole configuration.
            let routes = if block.contains("types:") {
                ""
            } else {
                "groups: { a: [claude-cli] }\ntypes: { executor: { group: a } }\n"
            };
            assert!(
                load(&format!("{routes}{block}")).kinds().contains(&"executor".to_owned()),
                "{page}: {block}"
            );
            blocks += 1;
        }
    }
    assert!(blocks >= 5, "only {blocks} configurations were found");
}

/// With every kind in the build, since each brings its own settings.
mod schema {
    use super::*;

    fn generated() -> Value {
        nexus_router::json_schema(&registry())
    }

    /// The same, its keys by the alphabet: some build may have turned on that they keep another order.
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(map) => {
                let map: BTreeMap<String, Value> = map.into_iter().collect();
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect()
            }
            Value::Array(items) => items.into_iter().map(sorted).collect(),
            other => other,
        }
    }

    #[test]
    fn the_schema_file_is_the_one_that_the_code_makes() {
        let text = format!("{}\n", serde_json::to_string_pretty(&sorted(generated())).unwrap());
        let path = repository().join("nexus.schema.json");
        if std::env::var_os("NEXUS_WRITE_SCHEMA").is_some() {
            fs::write(&path, &text).unwrap();
        }
        assert!(
            read("nexus.schema.json") == text,
            "nexus.schema.json is out of step: run `NEXUS_WRITE_SCHEMA=1 cargo test -p nexus-turn-cli --test it configuration`"
        );
    }

    #[test]
    fn the_example_shows_every_key_of_the_schema() {
        let example = uncommented(&read("nexus.yaml.example"));
        let mut keys = Vec::new();
        collect_keys(&generated(), &mut keys);
        assert!(keys.len() > 20, "only {} keys were found", keys.len());
        let registry = registry();
        for key in keys {
            let is_kind = registry.names().any(|name| name == key);
            let is_shown = (is_kind && example.contains(&key))
                || example.contains(&format!("{key}: "))
                || example.contains(&format!("{key}:\n"));
            assert!(is_shown, "the example does not show `{key}`");
        }
    }

    #[test]
    fn a_number_below_the_minimum_of_the_schema_is_refused_with_its_place() {
        let registry = registry();
        let mut tried = 0;
        for kind in registry.kinds() {
            let schema = kind.settings_schema();
            let properties = schema["properties"].as_object().unwrap();
            let least = |key: &str| properties[key]["minimum"].as_u64().filter(|least| *least > 0);
            for (key, least) in properties.keys().filter_map(|key| Some((key, least(key)?))) {
                let agent = if properties.contains_key("agent") { ", agent: grok" } else { "" };
                let text = format!(
                    "types: {{ executor: x }}\nbackends:\n  x: {{ kind: {}{agent}, {key}: {} }}\n",
                    kind.name(),
                    least - 1
                );
                let built = Router::from_str(&text, registry.clone(), BuildContext::in_home("home"));
                let error = built.map(|_| ()).unwrap_err().to_string();
                assert!(
                    error.contains(key) && error.contains(&format!("at least {least}")),
                    "{text}\n{error}"
                );
                tried += 1;
            }
        }
        assert!(tried >= 6 * 2, "only {tried} minima were found");
    }

    fn collect_keys(schema: &Value, keys: &mut Vec<String>) {
        match schema {
            Value::Object(object) => {
                for (name, value) in object {
                    if let (true, Some(properties)) = (name == "properties", value.as_object()) {
                        // What a schema forbids in one branch is no key of its own.
                        keys.extend(
                            properties
                                .iter()
                                .filter(|(_, value)| value.is_object())
                                .map(|(key, _)| key.clone()),
                        );
                    }
                    collect_keys(value, keys);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| collect_keys(item, keys)),
            _ => {}
        }
    }
}
