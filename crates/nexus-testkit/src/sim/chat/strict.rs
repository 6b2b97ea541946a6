//! Requests that strict servers of this API are known to refuse.
//!
//! Source: the errors of the OpenAI API for messages with the role `tool`, and those of chat templates for the order of
//! roles.

use serde_json::Value;

use crate::sim::conversation::{list_at, string_at};
use crate::sim::responses::refuse;
use crate::sim::server::Arrival;
use crate::sim::wire::Answer;

/// Returns the refusal of an invalid request, if the script is strict.
pub(super) fn refusal(arrival: &Arrival<'_>) -> Option<Answer> {
    if !arrival.scenario.strict_shape {
        return None;
    }
    let message = fault(list_at(arrival.json, "messages"))?;
    Some(refuse::with_status(400, "invalid_request_error", &message))
}

fn fault(messages: &[Value]) -> Option<String> {
    let mut open: Vec<String> = Vec::new();
    let mut last = String::new();
    for (place, message) in messages.iter().enumerate() {
        let role = string_at(message, "role");
        if role == "tool" {
            let id = string_at(message, "tool_call_id");
            let Some(call) = open.iter().position(|call| *call == id) else {
                return Some(format!(
                    "messages[{place}]: role 'tool' must be a response to a preceding message with 'tool_calls'"
                ));
            };
            // Each call may have only one result.
            open.remove(call);
        } else if let Some(id) = open.first() {
            return Some(format!("messages[{place}]: tool_call_ids did not have response messages: {id}"));
        } else if role == last {
            return Some(format!("messages[{place}]: conversation roles must alternate"));
        }
        for call in list_at(message, "tool_calls") {
            let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return Some(format!("messages[{place}]: function.arguments must be a JSON object"));
            }
            open.push(string_at(call, "id"));
        }
        last = role;
    }
    open.first().map(|id| format!("tool_call_ids did not have response messages: {id}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_messages_is_checked() {
        let user = json!({ "role": "user", "content": "a" });
        let call = |arguments: &str| {
            json!({ "role": "assistant", "content": null,
                "tool_calls": [{ "id": "1", "type": "function", "function": { "name": "x", "arguments": arguments } }] })
        };
        let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "b" });
        for (messages, words) in [
            (vec![user.clone(), call("{}"), result("1"), user.clone()], None),
            (vec![user.clone(), user.clone()], Some("alternate")),
            (vec![user.clone(), result("1")], Some("preceding")),
            (vec![user.clone(), call("{}"), result("2")], Some("preceding")),
            (vec![user.clone(), call("{}"), user.clone()], Some("did not have response")),
            (vec![user.clone(), call("{}")], Some("did not have response")),
            (vec![user, call("not json"), result("1")], Some("JSON object")),
        ] {
            let found = fault(&messages);
            assert_eq!(found.is_some(), words.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(words.unwrap_or_default()));
        }
    }
}
