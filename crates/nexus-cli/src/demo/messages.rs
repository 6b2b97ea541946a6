//! The Messages API, as the program of its vendor uses it. The simulated model answers it in words alone.
//!
//! Source: observed with version 2.1.332 of that program.

use serde_json::{Value, json};

use super::{
    reply::{ModelReply, pieces, tokens},
    request::{ModelRequest, content, list, text_at},
};

/// Reads a request.
pub(super) fn read(body: &Value) -> ModelRequest {
    let mut request = ModelRequest {
        model: text_at(body, "model").to_owned(),
        system: content(&body["system"]),
        is_streamed: body["stream"] == true,
        items: list(&body["messages"]).len(),
        ..ModelRequest::default()
    };
    let of_user = list(&body["messages"]).iter().filter(|message| message["role"] == "user");
    request.user_texts.extend(of_user.map(|message| content(&message["content"])));
    request
}

/// Formats an answer as one object.
pub(super) fn whole(reply: &ModelReply, request: &ModelRequest, request_bytes: usize) -> Value {
    let text = words(reply);
    let mut message = begun(request, request_bytes);
    message["content"] = json!([{ "type": "text", "text": text }]);
    message["stop_reason"] = json!("end_turn");
    message["usage"]["output_tokens"] = json!(tokens(text.len()));
    message
}

/// Formats an answer as an event stream.
pub(super) fn streamed(reply: &ModelReply, request: &ModelRequest, request_bytes: usize) -> String {
    let text = words(reply);
    let mut stream = String::new();
    let mut event = |kind: &str, mut data: Value| {
        data["type"] = json!(kind);
        stream.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
    };
    event("message_start", json!({ "message": begun(request, request_bytes) }));
    event("content_block_start", json!({ "index": 0, "content_block": { "type": "text", "text": "" } }));
    for piece in pieces(text) {
        event("content_block_delta", json!({ "index": 0, "delta": { "type": "text_delta", "text": piece } }));
    }
    event("content_block_stop", json!({ "index": 0 }));
    event(
        "message_delta",
        json!({
            "delta": { "stop_reason": "end_turn", "stop_sequence": null },
            "usage": { "output_tokens": tokens(text.len()) },
        }),
    );
    event("message_stop", json!({}));
    stream
}

fn begun(request: &ModelRequest, request_bytes: usize) -> Value {
    json!({
        "id": format!("msg_demo_{}", request.items),
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": { "input_tokens": tokens(request_bytes), "output_tokens": 1 },
    })
}

fn words(reply: &ModelReply) -> &str {
    match reply {
        ModelReply::Text(text) => text,
        ModelReply::Call { .. } => "This script calls tools only through the Responses API.",
    }
}
