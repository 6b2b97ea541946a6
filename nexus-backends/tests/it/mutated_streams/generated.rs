//! Generated answers of a model, as the stream of each wire.

use nexus_backends::generic::StreamDecoder;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// An answer of a model.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Text, in the pieces in which it streams.
    pub(crate) text: Vec<String>,
    /// Calls, in order.
    pub(crate) calls: Vec<Call>,
    /// Number of input tokens.
    pub(crate) input_tokens: u64,
    /// Number of output tokens.
    pub(crate) output_tokens: u64,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON, in the pieces in which it streams.
    pub(crate) arguments: Vec<String>,
}

/// A stream, event by event.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// Events with their empty line.
    pub(crate) events: Vec<String>,
}

/// A wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Responses,
    Chat,
    Messages,
    Gemini,
}

/// Name of a member that no wire has.
pub(crate) const UNKNOWN_MEMBER: &str = "x_nobody_knows";

/// Every wire.
pub(crate) const WIRES: [Wire; 4] = [Wire::Responses, Wire::Chat, Wire::Messages, Wire::Gemini];

/// A valid way to write a stream that differs from the usual one.
#[derive(Clone, Debug)]
pub(crate) struct Rewriting {
    /// Lines end with CR and LF.
    has_crlf: bool,
    /// A comment precedes every event.
    has_comments: bool,
    /// Every object has a member that nobody knows.
    has_unknown_member: bool,
    /// Members of objects are in the reverse order.
    is_reversed: bool,
    /// No space follows the name of a field.
    is_tight: bool,
}

/// Returns answers with text, calls or both.
pub(crate) fn answers() -> impl Strategy<Value = Answer> {
    let piece = prop_oneof![
        Just("a".to_owned()),
        Just("\u{1f600}".to_owned()),
        Just("\"quoted\"\n\n".to_owned()),
        Just("data: [DONE]".to_owned()),
        "[ -~é-ü\u{4e00}-\u{4e10}]{1,12}",
    ];
    let arguments = (any::<i32>(), "[ -~é]{0,12}").prop_map(|(number, text)| {
        let whole = json!({ "number": number, "text": text }).to_string();
        let middle = whole.floor_char_boundary(whole.len() / 2);
        vec![whole[..middle].to_owned(), whole[middle..].to_owned()]
    });
    let calls = proptest::collection::vec(("[a-z]{1,8}", arguments), 0..4);
    let text = proptest::collection::vec(piece, 1..6);
    (text, calls, any::<bool>(), 1..100_000u64, 1..10_000u64).prop_map(
        |(mut text, calls, has_text, input_tokens, output_tokens)| {
            let calls = calls.into_iter().enumerate().map(|(index, (name, arguments))| Call {
                id: format!("call_{index}"),
                name,
                arguments,
            });
            let calls: Vec<_> = calls.collect();
            if !has_text && !calls.is_empty() {
                text.clear();
            }
            Answer { text, calls, input_tokens, output_tokens }
        },
    )
}

/// Returns ways to write a stream.
pub(crate) fn rewritings() -> impl Strategy<Value = Rewriting> {
    any::<[bool; 5]>().prop_map(|[has_crlf, has_comments, has_unknown_member, is_reversed, is_tight]| {
        Rewriting { has_crlf, has_comments, has_unknown_member, is_reversed, is_tight }
    })
}

impl Rewriting {
    /// Writes the stream this way.
    pub(crate) fn of(&self, stream: &Stream) -> String {
        let mut written = String::new();
        for event in &stream.events {
            if self.has_comments {
                written.push_str(": keep-alive\n\n");
            }
            for line in event.lines() {
                let line = match line.strip_prefix("data: ") {
                    Some(data) => match serde_json::from_str(data) {
                        Ok(value) => format!("data: {}", self.value(value)),
                        Err(_) => line.to_owned(),
                    },
                    None => line.to_owned(),
                };
                let line = if self.is_tight { line.replacen(": ", ":", 1) } else { line };
                written.push_str(&line);
                written.push('\n');
            }
        }
        if self.has_crlf { written.replace('\n', "\r\n") } else { written }
    }

    fn value(&self, value: Value) -> String {
        // `serde_json` sorts members, so an object is written by hand.
        match value {
            Value::Object(members) => {
                let mut members: Vec<(String, String)> =
                    members.into_iter().map(|(name, value)| (name, self.value(value))).collect();
                if self.is_reversed {
                    members.reverse();
                }
                if self.has_unknown_member {
                    members.push((UNKNOWN_MEMBER.to_owned(), "{\"a\":[1,null]}".to_owned()));
                }
                let members: Vec<_> =
                    members.iter().map(|(name, value)| format!("{}:{value}", json!(name))).collect();
                format!("{{{}}}", members.join(","))
            }
            Value::Array(list) => {
                let list: Vec<_> = list.into_iter().map(|value| self.value(value)).collect();
                format!("[{}]", list.join(","))
            }
            other => other.to_string(),
        }
    }
}

impl Wire {
    /// Returns the name that the SDKs' program knows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Messages => "messages",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the decoder of the wire.
    pub(crate) fn decoder(self) -> StreamDecoder {
        match self {
            Self::Responses => StreamDecoder::new(),
            Self::Chat => StreamDecoder::chat(),
            Self::Messages => StreamDecoder::messages(),
            Self::Gemini => StreamDecoder::gemini(),
        }
    }

    /// Returns true if an event says that the answer is complete.
    pub(crate) fn is_end_mark(self, event: &str) -> bool {
        match self {
            Self::Responses => event.contains("response.completed"),
            Self::Chat => event.starts_with("data: [DONE]") || !event.contains("\"finish_reason\":null"),
            Self::Messages => event.contains("message_stop"),
            Self::Gemini => event.contains("\"finishReason\""),
        }
    }

    /// Returns the stream of an answer.
    pub(crate) fn stream(self, answer: &Answer) -> Stream {
        let events = match self {
            Self::Responses => responses(answer).iter().map(|data| named("type", data)).collect(),
            Self::Messages => messages(answer).iter().map(|data| named("type", data)).collect(),
            Self::Gemini => gemini(answer).iter().map(|data| format!("data: {data}\n\n")).collect(),
            Self::Chat => {
                let chunks = chat(answer).into_iter().map(|data| format!("data: {data}\n\n"));
                chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
            }
        };
        Stream { events }
    }
}

fn named(member: &str, data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data[member].as_str().unwrap_or_default())
}

fn responses(answer: &Answer) -> Vec<Value> {
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({
            "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status, "output": output,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {}, "tools": [],
            "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "top_p": 1, "usage": usage,
        })
    };
    let mut events =
        vec![json!({ "type": "response.created", "response": response("in_progress", &[], Value::Null) })];
    let mut output = Vec::new();
    if !answer.text.is_empty() {
        let whole = answer.text.concat();
        let part = |text: &str| json!({ "type": "output_text", "text": text, "annotations": [] });
        let item = |status: &str, content: Vec<Value>| json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content });
        let at = |mut event: Value| {
            let place = json!({ "item_id": "msg_1", "output_index": 0, "content_index": 0 });
            event.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
            event
        };
        events.push(
            json!({ "type": "response.output_item.added", "output_index": 0, "item": item("in_progress", vec![]) }),
        );
        events.push(at(json!({ "type": "response.content_part.added", "part": part("") })));
        for piece in &answer.text {
            events.push(at(json!({ "type": "response.output_text.delta", "delta": piece })));
        }
        events.push(at(json!({ "type": "response.output_text.done", "text": whole })));
        events.push(at(json!({ "type": "response.content_part.done", "part": part(&whole) })));
        let done = item("completed", vec![part(&whole)]);
        events.push(json!({ "type": "response.output_item.done", "output_index": 0, "item": done }));
        output.push(done);
    }
    for call in &answer.calls {
        let index = output.len();
        let item = |status: &str, arguments: &str| {
            json!({
                "type": "function_call", "id": format!("fc_{index}"), "call_id": call.id, "name": call.name,
                "arguments": arguments, "status": status,
            })
        };
        let id = format!("fc_{index}");
        events.push(
            json!({ "type": "response.output_item.added", "output_index": index, "item": item("in_progress", "") }),
        );
        for piece in &call.arguments {
            events.push(json!({
                "type": "response.function_call_arguments.delta", "item_id": id, "output_index": index, "delta": piece,
            }));
        }
        let whole = call.arguments.concat();
        events.push(json!({
            "type": "response.function_call_arguments.done", "item_id": id, "output_index": index,
            "name": call.name, "arguments": whole,
        }));
        let done = item("completed", &whole);
        events.push(json!({ "type": "response.output_item.done", "output_index": index, "item": done }));
        output.push(done);
    }
    let usage = json!({
        "input_tokens": answer.input_tokens, "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens": answer.output_tokens, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": answer.input_tokens + answer.output_tokens,
    });
    events.push(json!({ "type": "response.completed", "response": response("completed", &output, usage) }));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn chat(answer: &Answer) -> Vec<Value> {
    let chunk = |choices: Value, usage: Value| {
        let mut chunk = Map::new();
        let base = json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m" });
        chunk.extend(base.as_object().unwrap().clone());
        chunk.insert("choices".to_owned(), choices);
        if !usage.is_null() {
            chunk.insert("usage".to_owned(), usage);
        }
        Value::Object(chunk)
    };
    let delta =
        |delta: Value| chunk(json!([{ "index": 0, "delta": delta, "finish_reason": null }]), Value::Null);
    let mut chunks = vec![delta(json!({ "role": "assistant", "content": "" }))];
    chunks.extend(answer.text.iter().map(|piece| delta(json!({ "content": piece }))));
    for (index, call) in answer.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        chunks.push(delta(
            json!({ "tool_calls": [{ "index": index, "id": call.id, "type": "function", "function": function }] }),
        ));
        for piece in &call.arguments {
            let function = json!({ "arguments": piece });
            chunks.push(delta(json!({ "tool_calls": [{ "index": index, "function": function }] })));
        }
    }
    let reason = if answer.calls.is_empty() { "stop" } else { "tool_calls" };
    chunks.push(chunk(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), Value::Null));
    let usage = json!({
        "prompt_tokens": answer.input_tokens, "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    });
    chunks.push(chunk(json!([]), usage));
    chunks
}

fn messages(answer: &Answer) -> Vec<Value> {
    let usage = json!({ "input_tokens": answer.input_tokens, "output_tokens": 1 });
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": usage,
    });
    let mut events = vec![json!({ "type": "message_start", "message": message }), json!({ "type": "ping" })];
    let mut blocks = Vec::new();
    if !answer.text.is_empty() {
        let deltas = answer.text.iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect();
        blocks.push((json!({ "type": "text", "text": "" }), deltas));
    }
    for call in &answer.calls {
        let start = json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} });
        let delta = |piece: &String| json!({ "type": "input_json_delta", "partial_json": piece });
        let deltas: Vec<_> = call.arguments.iter().map(delta).collect();
        blocks.push((start, deltas));
    }
    for (index, (start, deltas)) in blocks.into_iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": start }));
        for delta in deltas {
            events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        }
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = if answer.calls.is_empty() { "end_turn" } else { "tool_use" };
    events.push(json!({
        "type": "message_delta", "delta": { "stop_reason": reason, "stop_sequence": null },
        "usage": { "output_tokens": answer.output_tokens },
    }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn gemini(answer: &Answer) -> Vec<Value> {
    let chunk = |parts: Vec<Value>| {
        json!({
            "candidates": [{ "index": 0, "content": { "role": "model", "parts": parts } }],
            "modelVersion": "m", "responseId": "r",
        })
    };
    let mut chunks: Vec<_> = answer.text.iter().map(|piece| chunk(vec![json!({ "text": piece })])).collect();
    for call in &answer.calls {
        let args: Value = serde_json::from_str(&call.arguments.concat()).unwrap();
        chunks
            .push(chunk(vec![json!({ "functionCall": { "id": call.id, "name": call.name, "args": args } })]));
    }
    // The last chunk states the end, and has a part of its own as the service sends it.
    let mut last = chunk(vec![json!({ "text": "" })]);
    last["candidates"][0]["finishReason"] = json!("STOP");
    last["usageMetadata"] = json!({
        "promptTokenCount": answer.input_tokens, "candidatesTokenCount": answer.output_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    });
    chunks.push(last);
    chunks
}
