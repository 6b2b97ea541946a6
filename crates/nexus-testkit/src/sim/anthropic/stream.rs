//! A reply as Messages events, or as one message for a client that did not ask for a stream.

use serde_json::{Value, json};

use super::{refuse, tools};
use crate::sim::cloud::{Cloud, framed};
use crate::sim::conversation::Conversation;
use crate::sim::fault::{Cut, Fault};
use crate::sim::reply::{Finish, Odd, Part, Reply, Usage, long_text};
use crate::sim::server::ModelCall;
use crate::sim::wire::{Answer, EventWriter, Step};

const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

/// The reply as an event stream.
pub(super) fn streamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let mut writer = EventWriter::new(reply.pace);
    let usage = reply.usage.unwrap_or(Usage { input: 0, cached: 0, ..Usage::default() });
    // A stall without parts means headers and nothing else, not even the first event.
    let silent = reply.parts.is_empty() && matches!(reply.fault, Some(Fault::Stall { .. }));
    if !silent {
        let mut message = message(call);
        message["usage"] = json!({
            "input_tokens": usage.input,
            "cache_creation_input_tokens": usage.cache_write,
            "cache_read_input_tokens": usage.cached,
            // The first event counts one token. The final count comes with `message_delta`.
            "output_tokens": 1,
        });
        writer.event("message_start", &json!({"type": "message_start", "message": message}));
        writer.raw(PING);
    }
    let mut blocks = 0;
    for (index, part) in reply.parts.iter().enumerate() {
        let strikes = reply.fault.as_ref().is_some_and(Fault::strikes_inside);
        // The fault falls into the last part, so its block gets no end.
        let left_open = strikes && index + 1 == reply.parts.len();
        if write_part(&mut writer, call, blocks, part, left_open) {
            blocks += 1;
        }
    }
    match &reply.fault {
        Some(Fault::Stall { pings }) => {
            writer.push(Step::Stall(pings.then(|| PING.into())));
        }
        Some(Fault::Torn { cut }) => writer.push(Step::Cut(*cut)),
        Some(Fault::NoEnd) => writer.push(Step::Cut(Cut::CleanEnd)),
        Some(Fault::StreamError { code, message } | Fault::ErrorLine { code, message }) => writer.event(
            "error",
            &json!({"type": "error", "error": {"type": refuse::stream_code(code), "message": message}}),
        ),
        Some(Fault::TornCharacter { cut }) => {
            let text = delta(blocks.saturating_sub(1), &json!({"type": "text_delta", "text": "水"}));
            writer.half_event("content_block_delta", &text);
            writer.push(Step::Cut(*cut));
        }
        Some(Fault::Flood) => {
            let text = delta(blocks.saturating_sub(1), &json!({"type": "text_delta", "text": "and on "}));
            writer.endless("content_block_delta", &text);
        }
        fault => {
            if let Some(Fault::HugeEvent { bytes }) = fault {
                writer.huge_event("simulated_bulk", *bytes);
            }
            let mut delta = json!({
                "type": "message_delta",
                "delta": {"stop_reason": stop_reason(reply), "stop_sequence": null},
                "usage": {"output_tokens": usage.output + usage.reasoning},
            });
            // The API always sends this field, so a missing usage becomes zero.
            if reply.usage.is_none() {
                delta["usage"] = json!({"output_tokens": 0});
            }
            writer.event("message_delta", &delta);
            writer.event("message_stop", &json!({"type": "message_stop"}));
        }
    }
    Answer::events(writer.into_steps())
}

/// The reply as one message.
pub(super) fn unstreamed(call: &ModelCall<'_>, reply: &Reply) -> Answer {
    let usage = reply.usage.unwrap_or_default();
    let mut whole = message(call);
    whole["content"] = reply
        .parts
        .iter()
        .enumerate()
        .filter_map(|(index, part)| match part {
            Part::Text { text } => Some(json!({"type": "text", "text": text})),
            Part::Long { bytes } => Some(json!({"type": "text", "text": long_text(*bytes)})),
            Part::Thinking { text } | Part::RawThinking { text } => {
                Some(json!({"type": "thinking", "thinking": text, "signature": SIGNATURE}))
            }
            Part::Call(wanted) => {
                let (name, input) = tools::render(wanted, call.conversation);
                let input: Value = serde_json::from_str(&input).unwrap_or(Value::String(input));
                Some(json!({"type": "tool_use", "id": call_id(call, index), "name": name, "input": input}))
            }
            Part::Odd { odd: Odd::Item | Odd::HostedSearch } => Some(odd_block()),
            Part::Odd { .. } => None,
        })
        .collect();
    whole["stop_reason"] = stop_reason(reply).into();
    whole["usage"] = json!({
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.output + usage.reasoning,
    });
    Answer::json(200, &whole)
}

/// A short answer to a call outside of the turn.
pub(super) fn answer_side_call(conversation: &Conversation, cloud: Option<Cloud>) -> Answer {
    let call = ModelCall { number: 0, conversation, cloud, call_id: None };
    let reply = Reply::text("Simulated side answer");
    match (conversation.stream, cloud) {
        (true, Some(Cloud::Bedrock)) => framed(streamed(&call, &reply)),
        (true, _) => streamed(&call, &reply),
        (false, _) => unstreamed(&call, &reply),
    }
}

const SIGNATURE: &str = "c2ltdWxhdGVkLXNpZ25hdHVyZQ==";

fn message(call: &ModelCall<'_>) -> Value {
    json!({
        "id": format!("msg_sim_{:04}", call.number),
        "type": "message",
        "role": "assistant",
        "model": call.conversation.model.as_deref().unwrap_or("simulated"),
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
    })
}

/// Writes one part. Returns true if it took a block.
fn write_part(
    writer: &mut EventWriter,
    call: &ModelCall<'_>,
    block: usize,
    part: &Part,
    left_open: bool,
) -> bool {
    match part {
        Part::Text { text } => write_text(writer, block, text, left_open),
        Part::Long { bytes } => write_text(writer, block, &long_text(*bytes), left_open),
        Part::Thinking { text } | Part::RawThinking { text } => {
            start(writer, block, &json!({"type": "thinking", "thinking": "", "signature": ""}));
            writer.pieces("content_block_delta", text, |piece| {
                delta(block, &json!({"type": "thinking_delta", "thinking": piece}))
            });
            if !left_open {
                // Clients send thinking back with its signature, which arrives as the last delta of the block.
                let signature = json!({"type": "signature_delta", "signature": SIGNATURE});
                writer.event("content_block_delta", &delta(block, &signature));
                stop(writer, block);
            }
        }
        Part::Call(wanted) => {
            let (name, input) = tools::render(wanted, call.conversation);
            let id = call_id(call, block);
            // The API always begins with an empty input. The arguments follow as pieces of JSON text.
            start(writer, block, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
            writer.pieces("content_block_delta", &input, |piece| {
                delta(block, &json!({"type": "input_json_delta", "partial_json": piece}))
            });
            stop(writer, block);
        }
        Part::Odd { odd: Odd::Item | Odd::HostedSearch } => {
            start(writer, block, &odd_block());
            stop(writer, block);
        }
        Part::Odd { odd: Odd::Event | Odd::LoopCheck } => {
            writer.event("simulated_news", &json!({"type": "simulated_news", "detail": 1}));
            return false;
        }
        Part::Odd { odd: Odd::Garbage } => {
            writer.raw("event: content_block_delta\ndata: {\"type\": \"content_bl\n\n");
            return false;
        }
        Part::Odd { odd: Odd::Comment } => {
            writer.raw(": simulated comment\n\n");
            return false;
        }
    }
    true
}

fn write_text(writer: &mut EventWriter, block: usize, text: &str, left_open: bool) {
    start(writer, block, &json!({"type": "text", "text": ""}));
    writer.pieces("content_block_delta", text, |piece| {
        delta(block, &json!({"type": "text_delta", "text": piece}))
    });
    if !left_open {
        stop(writer, block);
    }
}

fn start(writer: &mut EventWriter, block: usize, content: &Value) {
    let event = json!({"type": "content_block_start", "index": block, "content_block": content});
    writer.event("content_block_start", &event);
}

fn delta(block: usize, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": block, "delta": delta})
}

fn stop(writer: &mut EventWriter, block: usize) {
    writer.event("content_block_stop", &json!({"type": "content_block_stop", "index": block}));
}

fn odd_block() -> Value {
    json!({"type": "simulated_block", "content": "nobody knows this"})
}

fn call_id(call: &ModelCall<'_>, block: usize) -> String {
    call.tool_call_id(format!("toolu_sim_{:04}_{block}", call.number))
}

fn stop_reason(reply: &Reply) -> &'static str {
    match reply.finish {
        Finish::End if reply.calls_a_tool() => "tool_use",
        Finish::End => "end_turn",
        Finish::MaxTokens => "max_tokens",
        Finish::Refusal | Finish::ContentFilter => "refusal",
        Finish::Pause => "pause_turn",
        Finish::ContextExceeded => "model_context_window_exceeded",
    }
}
