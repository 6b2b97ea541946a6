//! Lines that Nexus writes to `claude`. Source: observed with claude 2.1.197 and 2.1.329.

use bytes::Bytes;
use serde_json::{Value, json};

/// Returns the control request `initialize`, with the system text and the schema of the answer.
pub(super) fn initialize(id: &str, system: System<'_>, schema: Option<&Value>) -> Bytes {
    let mut request = json!({ "subtype": "initialize" });
    match system {
        System::Replace(texts) => request["systemPrompt"] = json!(texts),
        System::Append(text) => request["appendSystemPrompt"] = json!(text),
        System::Vendor => {}
    }
    if let Some(schema) = schema {
        request["jsonSchema"] = schema.clone();
    }
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// Use of the vendor's own system text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum System<'a> {
    /// These texts replace the vendor's text.
    Replace(&'a [&'a str]),
    /// The vendor's text stays, followed by this text.
    Append(&'a str),
    /// The vendor's text stays unchanged.
    Vendor,
}

/// Returns the control request `mcp_set_servers`, which sets these servers, by name, and removes all others.
pub(super) fn set_servers(id: &str, servers: &Value) -> Bytes {
    let request = json!({ "subtype": "mcp_set_servers", "servers": servers });
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// Returns the control request `mcp_status`.
pub(super) fn server_status(id: &str) -> Bytes {
    line(&json!({ "type": "control_request", "request_id": id, "request": { "subtype": "mcp_status" } }))
}

/// Returns the control request `interrupt`.
pub(super) fn interrupt(id: &str) -> Bytes {
    line(&json!({ "type": "control_request", "request_id": id, "request": { "subtype": "interrupt" } }))
}

/// Returns the response that allows a tool call with this input.
pub(super) fn allow(request_id: &str, input: &Value) -> Bytes {
    permission(request_id, &json!({ "behavior": "allow", "updatedInput": input }))
}

/// Returns the response that denies a tool call, with the reason.
pub(super) fn deny(request_id: &str, why: &str) -> Bytes {
    permission(request_id, &json!({ "behavior": "deny", "message": why }))
}

fn permission(request_id: &str, answer: &Value) -> Bytes {
    let response = json!({ "subtype": "success", "request_id": request_id, "response": answer });
    line(&json!({ "type": "control_response", "response": response }))
}

/// Returns the response to an unsupported request.
pub(super) fn refuse(request_id: &str) -> Bytes {
    let response = json!({ "subtype": "error", "request_id": request_id, "error": "not supported" });
    line(&json!({ "type": "control_response", "response": response }))
}

/// Returns a user message with these blocks.
pub(super) fn user(content: &[Value]) -> Bytes {
    line(&json!({ "type": "user", "message": { "role": "user", "content": content } }))
}

/// Returns a user message with these blocks for a running turn. The CLI repeats `name` when it is about to give the
/// message to the model.
///
/// Source: observed with claude 2.1.197 and 2.1.329. While a tool runs, the CLI retains the message, and gives it to
/// the model beside the tool's result. While the model writes, the message waits for the next model call. Without a
/// next call, the CLI sends the message after the `result` line, and another `result` line follows.
pub(super) fn input(name: &str, content: &[Value]) -> Bytes {
    line(&json!({ "type": "user", "uuid": name, "message": { "role": "user", "content": content } }))
}

fn line(value: &Value) -> Bytes {
    let mut text = value.to_string();
    text.push('\n');
    Bytes::from(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_one_line() {
        let bytes = user(&[json!({ "type": "text", "text": "a\nb\r\u{2028}c" })]);
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(bytes.ends_with(b"\n"));
    }
}
