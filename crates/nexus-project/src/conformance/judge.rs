//! Compares the result of an action with its postcondition.

use std::{collections::BTreeMap, fs, path::Path};

use jsonpath_rust::JsonPath as _;
use serde_json::Value;

use super::{
    fixture::{Expected, Postcondition, Rule},
    server::CallReply,
};

/// Returns the faults, one sentence each. If the list is empty, the postcondition holds. Ignores `then`.
pub(super) fn faults(expected: &Postcondition, answer: Option<&CallReply>, root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    match (answer, &expected.error) {
        (Some(CallReply::Error(text)), Some(part)) => {
            if !text.to_lowercase().contains(&part.to_lowercase()) {
                faults.push(format!("the error does not contain {part:?}: {text}"));
            }
        }
        (Some(CallReply::Error(text)), None) => faults.push(format!("the call failed: {text}")),
        (Some(CallReply::Result(value)), Some(_)) => {
            faults.push(format!("the call succeeded, but had to fail: {value}"));
        }
        (Some(CallReply::Result(value)), None) => {
            faults.extend(faults_at("the result", &expected.result, value));
        }
        (None, _) => {}
    }
    for (path, places) in &expected.files {
        faults.extend(faults_of_file(path, places.as_ref(), root));
    }
    if !expected.any_of.is_empty() {
        let all: Vec<_> = expected.any_of.iter().map(|one| self::faults(one, answer, root)).collect();
        if !all.iter().any(Vec::is_empty) {
            let all: Vec<_> = all.iter().map(|faults| faults.join("; ")).collect();
            faults.push(format!("none of the alternatives is true: {}", all.join(" | ")));
        }
    }
    faults
}

/// Returns the faults of a value.
pub(super) fn faults_at(what: &str, expected: &BTreeMap<String, Expected>, value: &Value) -> Vec<String> {
    expected
        .iter()
        .filter_map(|(path, expected)| {
            fault_at(path, expected, value).map(|fault| format!("{what}: {fault}"))
        })
        .collect()
}

fn faults_of_file(name: &str, places: Option<&BTreeMap<String, Expected>>, root: &Path) -> Vec<String> {
    let path = root.join(name);
    let Some(places) = places else {
        return if path.exists() { vec![format!("{name} exists, but must not exist")] } else { Vec::new() };
    };
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return vec![format!("{name} cannot be read: {error}")],
    };
    // The path `$` addresses a whole file or result, which may be any text. All other values are JSON.
    if let (1, Some(Expected::Value(Value::String(expected)))) = (places.len(), places.get("$")) {
        return if text == *expected {
            Vec::new()
        } else {
            vec![format!("{name} has another text: {text:?}")]
        };
    }
    match serde_json::from_str(&text) {
        Ok(value) => faults_at(name, places, &value),
        Err(error) => vec![format!("{name} is not valid JSON: {error}")],
    }
}

fn fault_at(path: &str, expected: &Expected, value: &Value) -> Option<String> {
    let found = match value.query(path) {
        Ok(found) => found,
        Err(error) => return Some(format!("{path} is not a JSONPath: {error}")),
    };
    let found = match found.as_slice() {
        [] => Value::Null,
        [one] => (*one).clone(),
        several => Value::Array(several.iter().map(|value| (*value).clone()).collect()),
    };
    let holds = match expected {
        Expected::Rule(Rule::Any(any)) => found.is_null() != *any,
        Expected::Rule(Rule::Length(length)) => match &found {
            Value::Array(list) => list.len() == *length,
            Value::String(text) => text.len() == *length,
            _ => false,
        },
        Expected::Rule(Rule::Contains(part)) => {
            found.as_str().is_some_and(|text| text.to_lowercase().contains(&part.to_lowercase()))
        }
        Expected::Value(expected) => *expected == found,
    };
    (!holds).then(|| format!("{path} is {found}, and not {expected}"))
}

impl std::fmt::Display for Expected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rule(Rule::Any(true)) => f.write_str("anything"),
            Self::Rule(Rule::Any(false)) => f.write_str("absent"),
            Self::Rule(Rule::Length(length)) => write!(f, "of length {length}"),
            Self::Rule(Rule::Contains(part)) => write!(f, "a text with {part:?}"),
            Self::Value(Value::Null) => f.write_str("absent"),
            Self::Value(value) => value.fmt(f),
        }
    }
}
