//! The table of agents, and the set-up of their processes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::acp::agent::Furnishing;
use crate::acp::evidence::AgentFactsEvidence;
use crate::acp::judgement::JudgedCase;

const INPUTS: ListedInputs<'static> = ListedInputs {
    base_url: Some("http://127.0.0.1:8080/v1"),
    key: Some("canary-{model}"),
    model: Some("vendor/model \"1\""),
    has_tools: true,
};

fn set_up(name: &str, inputs: &ListedInputs<'_>) -> Furnishing {
    agent(name).unwrap().set_up(inputs).unwrap()
}

fn variable(furnishing: &Furnishing, name: &str) -> Option<String> {
    let found = furnishing.variables.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.to_str().unwrap().to_owned())
}

#[test]
fn the_table_is_readable_and_its_rows_are_complete() {
    let rows: BTreeMap<String, ListedAgent> = serde_json::from_str(include_str!("table.json")).unwrap();
    assert_eq!(rows.len(), table().len());
    for (name, row) in &rows {
        for text in [&row.title, &row.program, &row.install, &row.source] {
            assert!(!text.trim().is_empty(), "{name}");
        }
        assert_eq!(row.check_row(), Ok(()), "{name}");
        assert_eq!(row.checked == AgentFactsEvidence::RealProgram, row.version.is_some(), "{name}");
    }
}

#[test]
fn the_judgements_are_readable_and_of_the_tested_versions() {
    let judged: BTreeMap<String, AgentJudgement> = serde_json::from_str(include_str!("judged.json")).unwrap();
    for (name, judgement) in &judged {
        assert!(!judgement.cases.is_empty() && judgement.levels.len() == 4, "{name}");
        if let Some(row) = agent(name) {
            assert_eq!(judgement.version, row.version, "{name}");
            let declared: Vec<_> =
                judgement.cases.keys().filter(|case| row.cannot.contains_key(*case)).collect();
            let is_run = |case: &&&String| !matches!(judgement.cases[**case], JudgedCase::Cannot(_));
            assert_eq!(declared.iter().find(is_run), None, "{name}");
        }
    }
}

#[test]
fn placeholders_are_filled_in_keys_and_texts_and_values_are_not_searched() {
    let furnishing = set_up("opencode", &INPUTS);
    let config: Value =
        serde_json::from_str(&variable(&furnishing, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!(config["model"], "nexus/vendor/model \"1\"");
    assert_eq!(config["provider"]["nexus"]["options"]["apiKey"], "canary-{model}");
    assert_eq!(config["provider"]["nexus"]["models"], json!({ "vendor/model \"1\"": {} }));
    assert!(config["permission"].is_null() && furnishing.sets_model);
}

#[test]
fn parts_are_merged_and_without_tools_only_those_of_the_caller_stay() {
    let furnishing = set_up("opencode", &ListedInputs { has_tools: false, ..INPUTS });
    let config: Value =
        serde_json::from_str(&variable(&furnishing, "OPENCODE_CONFIG_CONTENT").unwrap()).unwrap();
    assert_eq!(config["permission"], json!({ "*": "deny", "nexus_*": "allow" }));
    assert_eq!(config["provider"]["nexus"]["options"]["baseURL"], "http://127.0.0.1:8080/v1");
}

#[test]
fn inputs_that_an_agent_cannot_use_are_refused_with_the_fix() {
    let own = ListedInputs { base_url: None, key: None, model: None, has_tools: true };
    assert!(variable(&set_up("opencode", &own), "OPENCODE_CONFIG_CONTENT").is_none());
    let refused = |name: &str, inputs: ListedInputs<'_>| agent(name).unwrap().set_up(&inputs).unwrap_err();
    assert!(refused("opencode", ListedInputs { model: None, ..INPUTS }).contains("`model`"));
    assert!(refused("opencode", ListedInputs { model: Some("--yolo"), ..INPUTS }).contains("`-`"));
    let key = |name: &str, server, key| agent(name).unwrap().check(server, key).unwrap_err().path.join(".");
    assert_eq!(key("goose", true, true), "base_url");
    assert_eq!(key("goose", false, true), "credential");
    assert_eq!(key("opencode", false, true), "credential");
    assert!(agent("opencode").unwrap().check(true, false).is_ok());
    let gemini = set_up("gemini-cli", &ListedInputs { key: Some("k"), ..own });
    assert_eq!(gemini.authentication.as_deref(), Some("gemini-api-key"));
    assert!(!gemini.sets_model);
}
