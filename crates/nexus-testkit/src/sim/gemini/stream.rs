//! A reply as chunks of a stream, or as one list of them.

use serde_json::{Value, json};

use crate::sim::fault::{Cut, Fault};
use crate::sim::reply::{Finish, Odd, Part, Reply, Usage, long_text};
use crate::sim::responses::stream::WireCall;
use crate::sim::responses::tools;
use crate::sim::server::ModelCall;
use crate::sim::wire::{Answer, EventWriter, Step};

use super::refuse;

/// Line that keeps a connection alive.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// Name of the events, which have none.
const NAMELESS: &str = "";

/// Codes of a fault that are a finish reason on this wire.
const FINISHES: [&str; 4] =
    ["MALFORMED_FUNCTION_CALL", "OTHER", "TOO_MANY_TOOL_CALLS", "UNEXPECTED_TOOL_CALL"];

/// Code of a fault that blocks the prompt.
const BLOCKED: &str = "PROMPT_BLOCKED";

/// The reply as an event stream.
pub(super) fn streamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut writer = EventWriter::new(reply.pace);
    let mut calls = 0;
    for part in &reply.parts {
        write_part(&mut writer, call, part, &mut calls);
    }
    match &reply.fault {
        Some(Fault::Stall { pings }) => writer.push(Step::Stall(pings.then(|| KEEP_ALIVE.into()))),
        Some(Fault::Torn { cut }) => writer.push(Step::Cut(*cut)),
        Some(Fault::NoEnd) => writer.push(Step::Cut(Cut::CleanEnd)),
        // On this wire, some failures of the model are finish reasons of a complete answer.
        Some(Fault::StreamError { code, message }) if FINISHES.contains(&code.as_str()) => {
            let mut last = last_chunk(call, reply);
            last["candidates"][0]["finishReason"] = json!(code);
            last["candidates"][0]["finishMessage"] = json!(message);
            writer.event(NAMELESS, &last);
        }
        Some(Fault::StreamError { code, message }) if code == BLOCKED => {
            let feedback = json!({ "blockReason": "SAFETY", "blockReasonMessage": message });
            writer.event(NAMELESS, &json!({ "promptFeedback": feedback }));
        }
        Some(Fault::StreamError { code, message }) => {
            let (status, code) = refuse::stream_code(code);
            writer.event(NAMELESS, &refuse::error(status, code, message));
        }
        // The vendor's SDK for JavaScript expects an error outside of the events, too.
        Some(Fault::ErrorLine { code, message }) => {
            let (status, code) = refuse::stream_code(code);
            writer.raw(format!("{:#}\n", refuse::error(status, code, message)));
        }
        Some(Fault::TornCharacter { cut }) => {
            writer.half_event(NAMELESS, &chunk(call, &[json!({ "text": "水" })]));
            writer.push(Step::Cut(*cut));
        }
        Some(Fault::Flood) => writer.endless(NAMELESS, &chunk(call, &[json!({ "text": "and on " })])),
        None if reply.finish == Finish::ContextExceeded => {
            let message = "The input token count (9000) exceeds the maximum number of tokens allowed (8192).";
            writer.event(NAMELESS, &refuse::error(400, "INVALID_ARGUMENT", message));
        }
        fault => {
            if let Some(Fault::HugeEvent { bytes }) = fault {
                writer.huge_event("simulated_bulk", *bytes);
            }
            writer.event(NAMELESS, &last_chunk(call, reply));
        }
    }
    Answer::events(writer.into_steps())
}

/// The reply as one list of chunks, as the API sends it without `alt=sse`.
pub(super) fn unstreamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let (mut parts, mut calls) = (Vec::new(), 0);
    for part in &reply.parts {
        match part {
            Part::Text { text } => parts.push(json!({ "text": text })),
            Part::Long { bytes } => parts.push(json!({ "text": long_text(*bytes) })),
            Part::Thinking { text } | Part::RawThinking { text } => parts.push(thought(text)),
            Part::Call(wanted) => parts.push(tool_call(call, wanted, &mut calls)),
            Part::Odd { .. } => {}
        }
    }
    Answer::json(200, &json!([chunk(call, &parts), last_chunk(call, reply)]))
}

fn chunk(call: &ModelCall<'_>, parts: &[Value]) -> Value {
    json!({
        "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }],
        "modelVersion": call.conversation.model.as_deref().unwrap_or("simulated"),
        "responseId": format!("sim-{:04}", call.number),
    })
}

/// The chunk with the reason of the end and the usage.
fn last_chunk(call: &ModelCall<'_>, reply: &Reply) -> Value {
    let mut last = chunk(call, &[json!({ "text": "" })]);
    last["candidates"][0]["finishReason"] = json!(finish_reason(reply));
    if let Some(usage) = &reply.usage {
        last["usageMetadata"] = usage_of(usage);
    }
    last
}

fn write_part(writer: &mut EventWriter, call: &ModelCall<'_>, part: &Part, calls: &mut usize) {
    let mut text = |text: &str| {
        writer.pieces(NAMELESS, text, |piece| chunk(call, &[json!({ "text": piece })]));
    };
    match part {
        Part::Text { text: words } => text(words),
        Part::Long { bytes } => text(&long_text(*bytes)),
        Part::Thinking { text } | Part::RawThinking { text } => {
            writer.pieces(NAMELESS, text, |piece| chunk(call, &[thought(piece)]));
        }
        Part::Call(wanted) => writer.event(NAMELESS, &chunk(call, &[tool_call(call, wanted, calls)])),
        Part::Odd { odd: Odd::Item | Odd::HostedSearch } => {
            writer.event(NAMELESS, &chunk(call, &[json!({ "simulatedPart": { "detail": 1 } })]));
        }
        Part::Odd { odd: Odd::Event | Odd::LoopCheck } => {
            writer.event(NAMELESS, &json!({ "simulatedNews": { "detail": 1 } }));
        }
        Part::Odd { odd: Odd::Garbage } => writer.raw("data: {\"candidates\": [{{\n\n"),
        Part::Odd { odd: Odd::Comment } => writer.raw(": simulated comment\n\n"),
    }
}

fn thought(text: &str) -> Value {
    json!({ "text": text, "thought": true })
}

/// Returns a call as a part. The first call of a reply is signed.
fn tool_call(call: &ModelCall<'_>, wanted: &crate::sim::ToolCall, calls: &mut usize) -> Value {
    let index = *calls;
    *calls += 1;
    let (name, arguments) = match tools::render(wanted, call.conversation) {
        WireCall::Function { name, arguments, .. } => (name, arguments),
        WireCall::Custom { name, input, .. } => (name, json!({ "input": input }).to_string()),
    };
    let id = call.tool_call_id(format!("call_sim_{:04}_{index}", call.number));
    // Arguments that are not JSON have no form on this wire but a string.
    let args = serde_json::from_str(&arguments).unwrap_or(Value::String(arguments));
    let mut part = json!({ "functionCall": { "id": id, "name": name, "args": args } });
    if index == 0 {
        part["thoughtSignature"] = json!(format!("c2ltLXNpZ25hdHVyZS0{:04}", call.number));
    }
    part
}

/// The counts, in which cached input is a part of the prompt, and thinking is counted apart.
fn usage_of(usage: &Usage) -> Value {
    let prompt = usage.input + usage.cached + usage.cache_write;
    json!({
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cached,
        "candidatesTokenCount": usage.output,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": prompt + usage.output + usage.reasoning,
    })
}

fn finish_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::End | Finish::Pause => "STOP",
        Finish::MaxTokens | Finish::ContextExceeded => "MAX_TOKENS",
        Finish::Refusal => "SAFETY",
        Finish::ContentFilter => "PROHIBITED_CONTENT",
    }
}
