//! Requests that the API is known to refuse.
//!
//! Source: the errors of the API for tool use, and its reference for the content of messages.

use serde_json::Value;

use super::refuse;
use crate::sim::cloud::CloudCall;
use crate::sim::conversation::{list_at, string_at};
use crate::sim::server::Arrival;
use crate::sim::wire::Answer;

/// Returns the refusal of an invalid request, if the script is strict.
pub(super) fn refusal(arrival: &Arrival<'_>) -> Option<Answer> {
    if !arrival.scenario.strict_shape {
        return None;
    }
    let of_cloud = CloudCall::of(arrival.path).and_then(|call| call.fault(arrival.json));
    if let Some(message) = of_cloud {
        return Some(refuse::with_status(400, 0, "invalid_request_error", &message));
    }
    let message = match arrival.json.get("max_tokens").and_then(Value::as_u64) {
        None => "max_tokens: Field required".to_owned(),
        Some(_) => fault(list_at(arrival.json, "messages"))?,
    };
    Some(refuse::with_status(400, 0, "invalid_request_error", &message))
}

fn fault(messages: &[Value]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let mut last = String::new();
    for (place, message) in messages.iter().enumerate() {
        let role = string_at(message, "role");
        // The history alternates. Parallel tool results must share one user message.
        if role == last || (place == 0 && role != "user") {
            return Some(format!(
                "messages.{place}: roles must alternate between \"user\" and \"assistant\""
            ));
        }
        let blocks = list_at(message, "content");
        let is_result = |block: &&Value| string_at(block, "type") == "tool_result";
        let results: Vec<String> =
            // The API accepts results only at the beginning of a message.
            blocks.iter().take_while(is_result).map(|block| string_at(block, "tool_use_id")).collect();
        if let Some(id) = open.iter().find(|id| !results.contains(id)) {
            return Some(format!(
                "messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}"
            ));
        }
        if let Some(id) = results.iter().find(|id| !open.contains(id)) {
            return Some(format!(
                "messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {id}"
            ));
        }
        if blocks.is_empty() || blocks.iter().any(is_blank) {
            return Some(format!("messages.{place}: text content blocks must be non-empty"));
        }
        let calls = blocks.iter().filter(|block| string_at(block, "type") == "tool_use");
        open = calls.map(|block| string_at(block, "id")).collect();
        last = role;
    }
    open.first().map(|id| format!("`tool_use` ids were found without `tool_result` blocks: {id}"))
}

fn is_blank(block: &Value) -> bool {
    string_at(block, "type") == "text" && string_at(block, "text").trim().is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_messages_is_checked() {
        let user = json!({ "role": "user", "content": [{ "type": "text", "text": "a" }] });
        let call = json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "1", "name": "x", "input": {} }] });
        let result =
            |id: &str| json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id }] });
        let late = json!({ "role": "user", "content": [
            { "type": "text", "text": "a" }, { "type": "tool_result", "tool_use_id": "1" },
        ] });
        let blank = json!({ "role": "user", "content": [{ "type": "text", "text": " " }] });
        for (messages, words) in [
            (vec![user.clone(), call.clone(), result("1")], None),
            (vec![call.clone()], Some("alternate")),
            (vec![user.clone(), user.clone()], Some("alternate")),
            (vec![user.clone(), call.clone(), user.clone()], Some("without `tool_result`")),
            (vec![user.clone(), call.clone(), late], Some("without `tool_result`")),
            (vec![user, call], Some("without `tool_result`")),
            (vec![result("1")], Some("unexpected")),
            (vec![blank], Some("non-empty")),
        ] {
            let found = fault(&messages);
            assert_eq!(found.is_some(), words.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(words.unwrap_or_default()));
        }
    }
}
