//! The lines that we write to `claude`. Source: observed with claude 2.1.197 and 2.1.329.

use bytes::Bytes;
use serde_json::{Value, json};

/// The control request `initialize`, with what stands above the prompt and the shape of the answer.
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
    /// These stand in its place.
    Replace(&'a [&'a str]),
    /// It stays, and this follows it.
    Append(&'a str),
    /// It stays.
    Vendor,
}

/// The control request `mcp_set_servers`: these servers, by name, and no others.
pub(super) fn set_servers(id: &str, servers: &Value) -> Bytes {
    let request = json!({ "subtype": "mcp_set_servers", "servers": servers });
    line(&json!({ "type": "control_request", "request_id": id, "request": request }))
}

/// The control request `mcp_status`.
pub(super) fn server_status(id: &str) -> Bytes {
    line(&json!({ "type": "control_request", "request_id": id, "request": { "subtype": "mcp_status" } }))
}

/// The control request `interrupt`.
pub(super) fn interrupt(id: &str) -> Bytes {
    line(&json!({ "type": "control_request", "request_id": id, "request": { "subtype": "interrupt" } }))
}

/// The answer yes to a question whether a tool may be called with this input.
pub(super) fn allow(request_id: &str, input: &Value) -> Bytes {
    permission(request_id, &json!({ "behavior": "allow", "updatedInput": input }))
}

/// The answer no, and why.
pub(super) fn deny(request_id: &str, why: &str) -> Bytes {
    permission(request_id, &json!({ "behavior": "deny", "message": why }))
}

fn permission(request_id: &str, answer: &Value) -> Bytes {
    let response = json!({ "subtype": "success", "request_id": request_id, "response": answer });
    line(&json!({ "type": "control_response", "response": response }))
}

/// The answer to any other question: that we do not know it.
pub(super) fn refuse(request_id: &str) -> Bytes {
    let response = json!({ "subtype": "error", "request_id": request_id, "error": "not supported" });
    line(&json!({ "type": "control_response", "response": response }))
}

/// A user message of these blocks.
pub(super) fn user(content: &[Value]) -> Bytes {
    line(&json!({ "type": "user", "message": { "role": "user", "content": content } }))
}

/// A user message of these blocks for a running turn. Its name returns when the CLI is about to give it to the
/// model.
///
/// Source: observed with claude 2.1.197 and 2.1.329. While a tool runs the CLI holds the message, and gives it
/// to the model beside the answer to the call. While the model writes, the message waits for the next call.
/// Without a next call the CLI sends it after the `result` line, and another `result` line follows.
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
