//! A reply as chunks of a stream, or as one completion.

use serde_json::{Value, json};

use crate::sim::fault::{Cut, Fault};
use crate::sim::reply::{Finish, Odd, Part, Reply, Usage, long_text};
use crate::sim::responses::stream::WireCall;
use crate::sim::responses::tools;
use crate::sim::server::ModelCall;
use crate::sim::wire::{Answer, EventWriter, Step};

/// Line that keeps a connection alive.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// Name of the events, which have none.
const NAMELESS: &str = "";

/// The reply as an event stream.
pub(super) fn streamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut writer = EventWriter::new(reply.pace);
    let silent = reply.parts.is_empty() && matches!(reply.fault, Some(Fault::Stall { .. }));
    if !silent {
        writer.raw(KEEP_ALIVE);
        writer.event(NAMELESS, &chunk(call, &json!({ "role": "assistant", "content": "" })));
    }
    let mut calls = 0;
    for part in &reply.parts {
        write_part(&mut writer, call, reply, part, &mut calls);
    }
    match &reply.fault {
        Some(Fault::Stall { pings }) => writer.push(Step::Stall(pings.then(|| KEEP_ALIVE.into()))),
        Some(Fault::Torn { cut }) => writer.push(Step::Cut(*cut)),
        Some(Fault::NoEnd) => writer.push(Step::Cut(Cut::CleanEnd)),
        Some(Fault::StreamError { code, message } | Fault::ErrorLine { code, message }) => {
            let code = match code.as_str() {
                "overloaded" => json!(503),
                "server" => json!(500),
                "rate_limit" => json!(429),
                other => json!(other),
            };
            write_error(&mut writer, call, &code, message);
        }
        Some(Fault::TornCharacter { cut }) => {
            writer.half_event(NAMELESS, &chunk(call, &json!({ "content": "水" })));
            writer.push(Step::Cut(*cut));
        }
        Some(Fault::Flood) => writer.endless(NAMELESS, &chunk(call, &json!({ "content": "and on " }))),
        None if reply.finish == Finish::ContextExceeded => {
            let message = "This model's maximum context length is 8192 tokens.";
            write_error(&mut writer, call, &json!("context_length_exceeded"), message);
        }
        fault => {
            if let Some(Fault::HugeEvent { bytes }) = fault {
                writer.huge_event("simulated_bulk", *bytes);
            }
            let mut last = chunk(call, &json!({}));
            last["choices"][0]["finish_reason"] = json!(finish_reason(reply));
            writer.event(NAMELESS, &last);
            if let Some(usage) = &reply.usage {
                let mut counted = chunk(call, &json!({}));
                // The chunk with the usage has no choices. A client that reads the first one without a check fails
                // here.
                counted["choices"] = json!([]);
                counted["usage"] = usage_of(usage);
                writer.event(NAMELESS, &counted);
            }
            writer.raw("data: [DONE]\n\n");
        }
    }
    Answer::events(writer.into_steps())
}

/// Writes an error as OpenRouter sends it, in a chunk and before the usual end.
fn write_error(writer: &mut EventWriter, call: &ModelCall<'_>, code: &Value, message: &str) {
    let mut error = chunk(call, &json!({ "content": "" }));
    error["error"] = json!({ "code": code, "message": message });
    // The error arrives inside of a regular chunk, with status 200.
    error["choices"][0]["finish_reason"] = json!("error");
    writer.event(NAMELESS, &error);
    writer.raw("data: [DONE]\n\n");
}

/// The reply as one completion.
pub(super) fn unstreamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut message = json!({ "role": "assistant", "content": null });
    let (mut text, mut thinking, mut calls) = (String::new(), String::new(), Vec::new());
    for part in &reply.parts {
        match part {
            Part::Text { text: piece } => text.push_str(piece),
            Part::Long { bytes } => text.push_str(&long_text(*bytes)),
            Part::Thinking { text: piece } | Part::RawThinking { text: piece } => thinking.push_str(piece),
            Part::Call(wanted) => calls.push(tool_call(call, wanted, calls.len()).0),
            Part::Odd { .. } => {}
        }
    }
    // A refusal has a field of its own and the usual finish reason, so only the field shows it.
    let key = if reply.finish == Finish::Refusal { "refusal" } else { "content" };
    if !text.is_empty() {
        message[key] = json!(text);
    }
    if !thinking.is_empty() {
        message["reasoning_content"] = json!(thinking);
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    let mut whole = chunk(call, &json!({}));
    whole["object"] = json!("chat.completion");
    whole["choices"] = json!([{ "index": 0, "message": message, "finish_reason": finish_reason(reply) }]);
    if let Some(usage) = &reply.usage {
        whole["usage"] = usage_of(usage);
    }
    Answer::json(200, &whole)
}

fn chunk(call: &ModelCall<'_>, delta: &Value) -> Value {
    json!({
        "id": format!("chatcmpl-sim-{:04}", call.number),
        "object": "chat.completion.chunk",
        "created": 1_795_000_000,
        "model": call.conversation.model.as_deref().unwrap_or("simulated"),
        "choices": [{ "index": 0, "delta": delta, "finish_reason": null }],
    })
}

fn write_part(writer: &mut EventWriter, call: &ModelCall<'_>, reply: &Reply, part: &Part, calls: &mut usize) {
    let text_key = if reply.finish == Finish::Refusal { "refusal" } else { "content" };
    let mut pieces = |key: &str, text: &str| {
        writer.pieces(NAMELESS, text, |piece| chunk(call, &json!({ key: piece })));
    };
    match part {
        Part::Text { text } => pieces(text_key, text),
        Part::Long { bytes } => pieces(text_key, &long_text(*bytes)),
        Part::Thinking { text } => pieces("reasoning_content", text),
        Part::RawThinking { text } => pieces("reasoning", text),
        Part::Call(wanted) => {
            let index = *calls;
            *calls += 1;
            let (mut first, arguments) = tool_call(call, wanted, index);
            first["index"] = json!(index);
            // The first delta has id and name. Later ones are recognised by their index alone.
            first["function"]["arguments"] = json!("");
            writer.event(NAMELESS, &chunk(call, &json!({ "tool_calls": [first] })));
            writer.pieces(NAMELESS, &arguments, |piece| {
                let delta = json!({ "index": index, "function": { "arguments": piece } });
                chunk(call, &json!({ "tool_calls": [delta] }))
            });
        }
        Part::Odd { odd: Odd::Item | Odd::HostedSearch | Odd::Event | Odd::LoopCheck } => {
            writer.event(NAMELESS, &json!({ "object": "simulated.news", "id": "news", "detail": 1 }));
        }
        Part::Odd { odd: Odd::Garbage } => writer.raw("data: {\"choices\": [{{\n\n"),
        Part::Odd { odd: Odd::Comment } => writer.raw(": simulated comment\n\n"),
    }
}

/// Returns a call as the wire has it, and its arguments.
fn tool_call(call: &ModelCall<'_>, wanted: &crate::sim::ToolCall, index: usize) -> (Value, String) {
    let (name, arguments) = match tools::render(wanted, call.conversation) {
        WireCall::Function { name, arguments, .. } => (name, arguments),
        WireCall::Custom { name, input, .. } => (name, json!({ "input": input }).to_string()),
    };
    let id = call.tool_call_id(format!("call_sim_{:04}_{index}", call.number));
    let function = json!({ "name": name, "arguments": arguments });
    (json!({ "id": id, "type": "function", "function": function }), arguments)
}

/// The counts, in which cached input and reasoning are parts of the sums.
fn usage_of(usage: &Usage) -> Value {
    let prompt = usage.input + usage.cached + usage.cache_write;
    let completion = usage.output + usage.reasoning;
    let mut report = json!({
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": { "cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    });
    if let Some(ticks) = usage.cost_ticks {
        report["cost_in_usd_ticks"] = json!(ticks);
    }
    report
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::End if reply.calls_a_tool() => "tool_calls",
        Finish::End | Finish::Refusal | Finish::Pause => "stop",
        Finish::MaxTokens | Finish::ContextExceeded => "length",
        Finish::ContentFilter => "content_filter",
    }
}
