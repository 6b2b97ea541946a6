//! An answer of the simulated model, in the format of the Responses API.

use serde_json::{Value, json};

use super::request::ModelRequest;

/// Bytes of text that count as one token, for the usage. Source: a common estimate for English.
const TOKEN_BYTES: usize = 4;
/// Bytes of one piece of a streamed text, at least.
const PIECE_BYTES: usize = 24;

/// An answer of the simulated model.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ModelReply {
    /// Words. They end the turn.
    Text(String),
    /// A tool call.
    Call {
        /// The tool.
        tool: &'static str,
        /// Its arguments.
        arguments: Value,
    },
}

impl ModelReply {
    /// Returns a call of a tool.
    pub(super) fn call(tool: &'static str, arguments: Value) -> Self {
        Self::Call { tool, arguments }
    }

    /// Formats the answer as an event stream.
    pub(super) fn streamed(&self, request: &ModelRequest, request_bytes: usize) -> String {
        let item = self.item(request);
        let mut stream = String::new();
        let mut number = 0;
        let mut event = |kind: &str, mut data: Value| {
            data["type"] = json!(kind);
            data["sequence_number"] = json!(number);
            number += 1;
            stream.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
        };
        event("response.created", json!({ "response": response(request, "in_progress") }));
        let place = json!({ "output_index": 0, "item_id": item["id"] });
        let with = |key: &str, value: Value| {
            let mut data = place.clone();
            data[key] = value;
            data
        };
        let mut opened = item.clone();
        opened["status"] = json!("in_progress");
        match self {
            Self::Text(text) => {
                let inside = |key: &str, value: Value| {
                    let mut data = with(key, value);
                    data["content_index"] = json!(0);
                    data
                };
                // A vendor's stream opens an item empty, and the deltas fill it.
                opened["content"] = json!([]);
                event("response.output_item.added", json!({ "output_index": 0, "item": opened }));
                let part = json!({ "type": "output_text", "text": "", "annotations": [] });
                event("response.content_part.added", inside("part", part));
                for piece in pieces(text) {
                    event("response.output_text.delta", inside("delta", json!(piece)));
                }
                event("response.output_text.done", inside("text", json!(text)));
                event("response.content_part.done", inside("part", item["content"][0].clone()));
            }
            Self::Call { .. } => {
                opened["arguments"] = json!("");
                event("response.output_item.added", json!({ "output_index": 0, "item": opened }));
                event("response.function_call_arguments.delta", with("delta", item["arguments"].clone()));
                event("response.function_call_arguments.done", with("arguments", item["arguments"].clone()));
            }
        }
        event("response.output_item.done", json!({ "output_index": 0, "item": item }));
        event("response.completed", json!({ "response": self.whole(request, request_bytes) }));
        stream
    }

    /// Formats the answer as one object, as for a request without streaming.
    pub(super) fn whole(&self, request: &ModelRequest, request_bytes: usize) -> Value {
        let item = self.item(request);
        let written = match self {
            Self::Text(text) => text.len(),
            Self::Call { .. } => item["arguments"].as_str().map_or(0, str::len),
        };
        let (input, output) = (tokens(request_bytes), tokens(written));
        let mut response = response(request, "completed");
        response["output"] = json!([item]);
        response["usage"] = json!({
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": output,
            "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": input + output,
        });
        response
    }

    /// Returns the output item. Its ids are unique in the conversation, which grows with every answer.
    fn item(&self, request: &ModelRequest) -> Value {
        let number = request.items;
        match self {
            Self::Text(text) => json!({
                "type": "message", "id": format!("msg_demo_{number}"), "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }],
            }),
            Self::Call { tool, arguments } => json!({
                "type": "function_call", "id": format!("fc_demo_{number}"), "call_id": format!("call_demo_{number}"),
                "name": tool, "arguments": arguments.to_string(), "status": "completed",
            }),
        }
    }
}

fn response(request: &ModelRequest, status: &str) -> Value {
    json!({
        "id": format!("resp_demo_{}", request.items),
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "status": status,
        "output": [],
    })
}

pub(super) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(TOKEN_BYTES)
}

/// Splits a text after words.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut begin = 0;
    for (end, _) in text.match_indices(' ').map(|(at, space)| (at + space.len(), space)) {
        if end - begin >= PIECE_BYTES {
            pieces.push(&text[begin..end]);
            begin = end;
        }
    }
    pieces.extend(Some(&text[begin..]).filter(|rest| !rest.is_empty()));
    pieces
}
