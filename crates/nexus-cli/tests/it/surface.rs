//! Names that users type and programs read: commands and options, tools of the servers, features and paths of the facade, variables,
//! subjects, telemetry. Each list is a snapshot, so that none of them changes unnoticed:
//! `INSTA_UPDATE=always cargo test -p nexus-turn-cli --test it surface`, then `git diff`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::surface;

/// Root of the repository.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn commands_and_options() {
    let mut lines = Vec::new();
    for (command, help) in surface::commands() {
        let (mut section, mut names) = (String::new(), Vec::new());
        for line in help.lines() {
            if line.is_empty() {
                continue;
            }
            if !line.starts_with(' ') {
                line.clone_into(&mut section);
                continue;
            }
            let indent = line.len() - line.trim_start().len();
            let Some(first) = line.split_whitespace().next() else { continue };
            match section.as_str() {
                "Arguments:" if indent == 2 => names.push(first.to_owned()),
                "Options:" | "Global options:" if indent <= 6 && line.trim_start().starts_with('-') => {
                    names.extend(
                        line.split([' ', ',', '=', '['])
                            .find(|word| word.starts_with("--"))
                            .map(str::to_owned),
                    );
                }
                _ => {}
            }
        }
        let separator = if command.is_empty() { "" } else { " " };
        lines.push(format!("nexus{separator}{command} {}", names.join(" ")).trim_end().to_owned());
    }
    lines.sort();
    assert_snapshot!("surface_commands", lines.join("\n"));
}

/// The names of properties in a schema, the required ones with `!`, those of objects inside in brackets.
fn shape(schema: &Value) -> String {
    let required: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let names = schema["properties"].as_object().into_iter().flatten().map(|(name, property)| {
        let mark = if required.contains(name.as_str()) { "!" } else { "" };
        match property["properties"].is_object() {
            true => format!("{name}{mark}({})", shape(property)),
            false => format!("{name}{mark}"),
        }
    });
    names.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(" ")
}

#[test]
fn tools_of_the_servers() {
    let mut lines = Vec::new();
    for server in surface::SERVERS {
        let (name, tools) = surface::tools_of(server);
        lines.push(format!("nexus mcp {server}: {name:?}"));
        for tool in tools {
            lines.push(format!("  {} takes {}", tool["name"].as_str().unwrap(), shape(&tool["inputSchema"])));
            lines.push(format!("    answers {}", shape(&tool["outputSchema"])));
        }
    }
    assert_snapshot!("surface_tools", lines.join("\n"));
}

#[test]
fn features_and_paths_of_the_facade() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let features = manifest.split_once("\n[features]\n").unwrap().1.split("\n[").next().unwrap();
    let mut lines: Vec<String> = features
        .lines()
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| format!("feature {name}"))
        .collect();
    let source = fs::read_to_string(repository().join("src/lib.rs")).unwrap();
    let code: Vec<&str> = source.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    for exported in code.join("\n").split("pub use ").skip(1) {
        let exported = exported.split_once(';').unwrap().0;
        let (crate_path, names) = exported.split_once("::").unwrap_or(("", exported));
        let names: String = names.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut names: Vec<&str> =
            names.trim_matches(['{', '}', ' ']).split(", ").map(|name| name.trim_end_matches(',')).collect();
        names.sort_unstable();
        lines.push(format!("from {crate_path}: {}", names.join(" ")));
    }
    lines.sort();
    assert_snapshot!("surface_facade", lines.join("\n"));
}

/// Literals in the product's code that `is_name` accepts, without those of its tests.
fn literals(is_name: impl Fn(&str) -> bool) -> String {
    let mut found = BTreeSet::new();
    let mut folders: Vec<PathBuf> = ["nexus-core", "nexus-backends", "nexus-router", "crates"]
        .iter()
        .map(|name| repository().join(name))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let is_product = !["tests", "tests.rs", "examples", "fuzz", "nexus-testkit", "target"]
                .contains(&name.as_str());
            if path.is_dir() && is_product {
                folders.push(path);
            } else if is_product && name.ends_with(".rs") {
                let source = fs::read_to_string(&path).unwrap();
                let product = source.split("\n#[cfg(test)]\nmod ").next().unwrap();
                let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
                for literal in code.flat_map(|line| line.split('"').skip(1).step_by(2)) {
                    if is_name(literal) {
                        found.insert(literal.to_owned());
                    }
                }
            }
        }
    }
    found.into_iter().collect::<Vec<_>>().join("\n")
}

#[test]
fn files_of_homes_and_projects() {
    let is_file = |text: &str| {
        let (stem, ending) = text.rsplit_once('.').unwrap_or_default();
        ["json", "jsonl", "db", "lock"].contains(&ending)
            && !stem.is_empty()
            && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    assert_snapshot!("surface_files", literals(is_file));
}

#[test]
fn environment_variables_and_buckets() {
    let is_variable = |text: &str| {
        text.strip_prefix("NEXUS_").is_some_and(|rest| {
            !rest.is_empty()
                && rest.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
        })
    };
    assert_snapshot!("surface_variables", literals(is_variable));
}

#[test]
fn subjects_and_telemetry() {
    let is_wire_name = |text: &str| {
        ["nexus.", "nexus-", "nexus_", "gen_ai.", "error.type"].iter().any(|start| text.starts_with(start))
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-*>{}".contains(&byte))
    };
    assert_snapshot!("surface_wire_names", literals(is_wire_name));
}
