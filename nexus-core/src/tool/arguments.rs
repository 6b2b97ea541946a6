//! Reads the arguments that a model wrote, and reports their faults to the model.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::{Path, Segment};

use super::ToolDefinition;
use crate::json_schema::SchemaChecker;

/// Longest description of a fault for the model, in bytes. The parser quotes the rejected text, which may
/// have megabytes. Source: our own bound.
const MAX_PROBLEM_BYTES: usize = 600;

/// Longest schema that is repeated together with the fault, in bytes. Source: our own bound.
const MAX_SCHEMA_BYTES: usize = 2_000;

/// Maximum number of schema violations in one message.
const MAX_VIOLATIONS: usize = 5;

/// Replaces `null` by the empty object: some models write `null` or nothing for a tool without arguments.
pub(super) fn or_empty(arguments: Value) -> Value {
    if arguments.is_null() { Value::Object(Map::new()) } else { arguments }
}

/// Deserializes arguments as `A`. The error has the position of the fault, as a JSON Pointer.
pub(super) fn read<A: DeserializeOwned>(arguments: &Value) -> Result<A, String> {
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let place = pointer(error.path());
        located(&place, &error.into_inner().to_string())
    })
}

/// Checks arguments against a schema.
pub(super) fn check(arguments: &Value, checker: &SchemaChecker) -> Result<(), String> {
    let violations = checker.violations(arguments, MAX_VIOLATIONS);
    let violations: Vec<_> = violations.iter().map(|(place, problem)| located(place, problem)).collect();
    if violations.is_empty() { Ok(()) } else { Err(violations.join("; ")) }
}

/// Returns the fault, and the schema if it is short.
pub(super) fn with_schema(definition: &ToolDefinition, problem: &str) -> String {
    let mut text = shortened(problem, MAX_PROBLEM_BYTES);
    let schema = definition.input_schema.to_string();
    if schema.len() <= MAX_SCHEMA_BYTES {
        text.push_str("\nIts arguments must fit this JSON Schema: ");
        text.push_str(&schema);
    }
    text
}

/// Returns at most `limit` bytes of `text`, cut between characters, with a mark at the cut.
pub(crate) fn shortened(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(limit)])
}

fn located(place: &str, problem: &str) -> String {
    let problem = shortened(problem, MAX_PROBLEM_BYTES / 2);
    if place.is_empty() {
        problem
    } else {
        format!("at {}: {problem}", shortened(place, MAX_PROBLEM_BYTES / 4))
    }
}

fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let key = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                key.replace('~', "~0").replace('/', "~1")
            }
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.push_str(&key);
    }
    pointer
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Order {
        items: Vec<Item>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Item {
        #[serde(rename = "a/b")]
        count: u8,
    }

    #[test]
    fn a_problem_is_told_with_its_place() {
        let problem = read::<Order>(&json!({ "items": [{ "a/b": 1 }, { "a/b": "x" }] })).unwrap_err();
        assert!(problem.starts_with("at /items/1/a~1b: invalid type"), "{problem}");
        let problem = read::<Order>(&json!({})).unwrap_err();
        assert_eq!(problem, "missing field `items`");
    }

    #[test]
    fn a_megabyte_that_is_refused_is_not_sent_back() {
        let text = "ü".repeat(1 << 20);
        let problem = read::<Order>(&json!({ "items": text })).unwrap_err();
        assert!(problem.len() < MAX_PROBLEM_BYTES, "{} bytes", problem.len());
        let checker = SchemaChecker::new(&json!({ "additionalProperties": { "type": "integer" } })).unwrap();
        let problem = check(&json!({ text: "x" }), &checker).unwrap_err();
        assert!(problem.len() < MAX_PROBLEM_BYTES, "{} bytes", problem.len());
    }

    #[test]
    fn a_schema_tells_every_violation_up_to_five() {
        let checker = SchemaChecker::new(&json!({ "items": { "type": "string" } })).unwrap();
        let problem = check(&json!([1, "a", 2]), &checker).unwrap_err();
        assert!(problem.contains("at /0: ") && problem.contains("; at /2: "), "{problem}");
        let problem = check(&json!([1, 2, 3, 4, 5, 6]), &checker).unwrap_err();
        assert!(problem.contains("/4") && !problem.contains("/5"), "{problem}");
    }

    #[test]
    fn a_long_schema_is_not_repeated() {
        let short = ToolDefinition::new("a", "", json!({ "type": "object" }));
        let long = ToolDefinition::new("a", "", json!({ "description": "x".repeat(MAX_SCHEMA_BYTES) }));
        assert!(with_schema(&short, "p").contains("JSON Schema"));
        assert!(!with_schema(&long, "p").contains("JSON Schema"));
    }
}
