//! What a tool call came to.
//!
//! Source: observed with grok 1.0.41.

use nexus_core::{ToolCallStatus, ToolContent};
use serde_json::Value;

use super::wire;

/// What a tool's answer begins with when the call was not let through.
const NOT_LET_THROUGH: &str = "User cancelled the execution"; // perm-cancel-streaming-json
/// What such an answer has in it, with the rule behind it.
const DENIED_BY_RULE: &str = "Denied by permission policy"; // strict-deny-bare

/// How a call ended that the vendor counts as completed or not, and what came back.
pub(super) fn of_call(update: &wire::ToolCallUpdate, succeeded: bool) -> (ToolCallStatus, Vec<ToolContent>) {
    let output = tool_output(update);
    let status = match succeeded {
        true if command_failed(&update.raw_output) => ToolCallStatus::Failed,
        true => ToolCallStatus::Succeeded,
        false if was_denied(&output) => ToolCallStatus::Denied,
        false => ToolCallStatus::Failed,
    };
    (status, output)
}

/// What a tool answered: the text shown, else what the harness holds of it.
fn tool_output(update: &wire::ToolCallUpdate) -> Vec<ToolContent> {
    let text_of = |part: &Value| part.pointer("/content/text").and_then(Value::as_str).map(ToolContent::text);
    let shown: Vec<ToolContent> = update.content.iter().filter_map(text_of).collect();
    if !shown.is_empty() {
        return shown;
    }
    let raw = &update.raw_output;
    let places =
        ["/Content/content", "/output/OkayOutput", "/output/Error", "/EditsApplied/tool_output_for_prompt"];
    match places.iter().find_map(|place| raw.pointer(place)) {
        Some(Value::String(text)) => vec![ToolContent::text(text.as_str())],
        Some(value) => vec![ToolContent::Json { value: value.clone() }],
        None if raw.is_null() => Vec::new(),
        None => vec![ToolContent::Json { value: raw.clone() }],
    }
}

/// Whether a shell command ended with another status than zero, which the vendor counts as completed.
fn command_failed(raw: &Value) -> bool {
    let is_command = raw.get("type").and_then(Value::as_str) == Some("Bash");
    is_command && raw.get("exit_code").and_then(Value::as_i64).is_some_and(|code| code != 0)
}

fn was_denied(output: &[ToolContent]) -> bool {
    output.iter().any(|part| match part {
        ToolContent::Text { text } => text.starts_with(NOT_LET_THROUGH) || text.contains(DENIED_BY_RULE),
        _ => false,
    })
}
