//! A reply as Responses events, in OpenAI's flavour and in xAI's.

mod items;

use serde_json::{Value, json};

use crate::sim::fault::{Cut, Fault};
use crate::sim::rate_limit::RateLimit;
use crate::sim::reply::{Finish, Part, Reply, Usage};
use crate::sim::server::ModelCall;
use crate::sim::wire::{Answer, EventWriter, Step};

/// Variant of the stream, by vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Flavour {
    /// OpenAI's: the terminal event carries no output.
    OpenAi,
    /// xAI's: events are numbered, the terminal event repeats the output, costs and context are reported.
    Xai,
}

/// A tool call with the names of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) enum WireCall {
    Function { namespace: Option<String>, name: String, arguments: String },
    Custom { namespace: Option<String>, name: String, input: String },
}

/// Builds the reply as one JSON body, as for a request without streaming.
pub(in crate::sim) fn unstreamed(call: &ModelCall<'_>, reply: &Reply, flavour: Flavour) -> Answer {
    let mut stream = Stream::new(call, reply, flavour);
    for part in &reply.parts {
        stream.part(part, false);
    }
    let mut response = stream.terminal(reply, "completed");
    response["output"] = Value::Array(stream.output);
    Answer::json(200, &response)
}

/// The reply as an event stream.
pub(in crate::sim) fn streamed(call: &ModelCall<'_>, reply: &Reply, flavour: Flavour) -> Answer {
    let silent = reply.parts.is_empty() && matches!(reply.fault, Some(Fault::Stall { .. }));
    let mut stream = Stream::new(call, reply, flavour);
    if !silent {
        stream.begin(reply.rate_limit.as_ref());
    }
    for (index, part) in reply.parts.iter().enumerate() {
        let strikes = reply.fault.as_ref().is_some_and(Fault::strikes_inside);
        let left_open = strikes && index + 1 == reply.parts.len();
        stream.part(part, left_open);
    }
    match &reply.fault {
        Some(Fault::Stall { pings }) => {
            let ping = pings.then(|| ": keep-alive\n\n".into());
            stream.writer.push(Step::Stall(ping));
        }
        Some(Fault::Torn { cut }) => stream.writer.push(Step::Cut(*cut)),
        Some(Fault::StreamError { code, message }) => stream.fail(code, message),
        Some(Fault::ErrorLine { code, message }) => stream.error_line(code, message),
        Some(Fault::NoEnd) => stream.writer.push(Step::Cut(Cut::CleanEnd)),
        Some(Fault::TornCharacter { cut }) => {
            let data = stream.open_delta(reply, "水");
            stream.writer.half_event(TEXT_DELTA, &data);
            stream.writer.push(Step::Cut(*cut));
        }
        Some(Fault::Flood) => {
            let data = stream.open_delta(reply, "and on ");
            stream.writer.endless(TEXT_DELTA, &data);
        }
        Some(Fault::HugeEvent { bytes }) => {
            stream.writer.huge_event("response.simulated_bulk", *bytes);
            stream.end(reply);
        }
        _ => stream.end(reply),
    }
    Answer::events(stream.writer.into_steps())
}

struct Stream<'a> {
    writer: EventWriter,
    flavour: Flavour,
    call: &'a ModelCall<'a>,
    sequence: u64,
    output: Vec<Value>,
    refusing: bool,
    /// Reason why the answer counts as repetitive, if it does.
    triggers: Option<Value>,
}

/// The event of a piece of text.
const TEXT_DELTA: &str = "response.output_text.delta";

impl<'a> Stream<'a> {
    fn new(call: &'a ModelCall<'a>, reply: &Reply, flavour: Flavour) -> Self {
        Self {
            writer: EventWriter::new(reply.pace),
            flavour,
            call,
            sequence: 0,
            output: Vec::new(),
            // xAI has no content of type `refusal`: it ends such a response as incomplete.
            refusing: flavour == Flavour::OpenAi && reply.finish == Finish::Refusal,
            triggers: None,
        }
    }

    fn begin(&mut self, limit: Option<&RateLimit>) {
        let response = self.response("in_progress");
        self.event("response.created", json!({ "response": response }));
        if self.flavour == Flavour::Xai {
            self.event("response.in_progress", json!({ "response": response }));
        } else if let Some(limit) = limit {
            self.event(
                "codex.rate_limits",
                json!({
                    "plan_type": limit.plan,
                    "rate_limits": {
                        "primary": {
                            "used_percent": limit.used_percent,
                            "window_minutes": limit.window_minutes,
                            "reset_at": limit.resets_at,
                        },
                        "secondary": limit.secondary.map(|window| json!({
                            "used_percent": window.used_percent,
                            "window_minutes": window.window_minutes,
                            "reset_at": window.resets_at,
                        })),
                    },
                    "credits": null,
                }),
            );
        }
    }

    /// A piece of the text that the last part left open; opens one if none is.
    fn open_delta(&mut self, reply: &Reply, piece: &str) -> Value {
        if !matches!(reply.parts.last(), Some(Part::Text { .. } | Part::Long { .. })) {
            self.message("", true);
        }
        let place = json!({"item_id": self.id("msg"), "output_index": self.output.len(), "content_index": 0});
        let mut data = with(&place, "delta", json!(piece));
        data["type"] = json!(TEXT_DELTA);
        data
    }

    fn error_line(&mut self, code: &str, message: &str) {
        match self.flavour {
            Flavour::OpenAi => {
                self.event("error", json!({"code": code, "message": message, "param": null}));
            }
            Flavour::Xai => {
                let line = json!({"code": code, "error": message});
                self.writer.raw(format!("data: {line}\n\n"));
            }
        }
    }

    fn end(&mut self, reply: &Reply) {
        let incomplete = |reason: &str| json!({ "reason": reason });
        let (name, details) = match reply.finish {
            Finish::MaxTokens => ("incomplete", Some(incomplete("max_output_tokens"))),
            Finish::ContentFilter => ("incomplete", Some(incomplete("content_filter"))),
            Finish::Refusal if self.flavour == Flavour::Xai => {
                ("incomplete", Some(incomplete("content_filter")))
            }
            Finish::ContextExceeded => {
                let message = "Your input exceeds the context window of this model.";
                return self.fail("context_length_exceeded", message);
            }
            Finish::End | Finish::Refusal | Finish::Pause => ("completed", None),
        };
        let mut response = self.terminal(reply, name);
        if self.flavour == Flavour::Xai {
            response["output"] = Value::Array(self.output.clone());
        }
        if let Some(details) = details {
            response["incomplete_details"] = details;
        }
        if reply.finish == Finish::Pause && self.flavour == Flavour::OpenAi {
            // Codex calls the model again if this field is false.
            response["end_turn"] = json!(false);
        }
        self.event(&format!("response.{name}"), json!({ "response": response }));
        if self.flavour == Flavour::Xai {
            self.writer.raw("data: [DONE]\n\n");
        }
    }

    /// Builds the final response, without its output.
    fn terminal(&self, reply: &Reply, status: &str) -> Value {
        let mut response = self.response(status);
        if let Some(usage) = &reply.usage {
            response["usage"] = self.usage(usage);
        }
        if let Some(check) = &self.triggers {
            response["doom_loop_check"] = check.clone();
        }
        response
    }

    fn fail(&mut self, code: &str, message: &str) {
        let code = match code {
            "overloaded" => "server_is_overloaded",
            "server" => "server_error",
            "rate_limit" => "rate_limit_exceeded",
            other => other,
        };
        let mut response = self.response("failed");
        response["error"] = json!({"code": code, "message": message});
        response["usage"] = Value::Null;
        self.event("response.failed", json!({ "response": response }));
    }

    fn usage(&self, usage: &Usage) -> Value {
        let input = usage.input + usage.cached + usage.cache_write;
        let output = usage.output + usage.reasoning;
        let mut written = json!({
            "input_tokens": input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": input + output,
        });
        if self.flavour == Flavour::Xai {
            written["context_details"] = json!({"input_tokens": input, "output_tokens": output});
            if let Some(ticks) = usage.cost_ticks {
                written["cost_in_usd_ticks"] = json!(ticks);
            }
        } else if usage.cache_write > 0 {
            written["input_tokens_details"]["cache_write_tokens"] = json!(usage.cache_write);
        }
        written
    }

    fn add(&mut self, item: &Value) {
        let index = self.output.len();
        self.event("response.output_item.added", json!({"output_index": index, "item": item}));
    }

    fn done(&mut self, item: Value) {
        let index = self.output.len();
        self.event("response.output_item.done", json!({"output_index": index, "item": item}));
        self.output.push(item);
    }

    fn pieces(&mut self, name: &str, text: &str, place: &Value) {
        let numbered = self.flavour == Flavour::Xai;
        let sequence = &mut self.sequence;
        self.writer.pieces(name, text, |piece| {
            let mut data = with(place, "delta", json!(piece));
            data["type"] = json!(name);
            if numbered {
                data["sequence_number"] = json!(*sequence);
                *sequence += 1;
            }
            data
        });
    }

    fn event(&mut self, name: &str, mut data: Value) {
        data["type"] = json!(name);
        if self.flavour == Flavour::Xai {
            data["sequence_number"] = json!(self.sequence);
            self.sequence += 1;
        }
        self.writer.event(name, &data);
    }

    fn response(&self, status: &str) -> Value {
        json!({
            "id": format!("resp_sim_{:04}", self.call.number),
            "object": "response",
            "created_at": 1_795_000_000,
            "model": self.call.conversation.model.as_deref().unwrap_or("simulated"),
            "status": status,
            "output": [],
        })
    }

    /// An id with a prefix that clients know, unique over the simulator.
    fn id(&self, prefix: &str) -> String {
        format!("{prefix}_sim{:04}x{}", self.call.number, self.output.len())
    }

    fn encrypted(&self) -> String {
        format!("simulated-reasoning-{:04}-{}", self.call.number, self.output.len())
    }
}

/// Returns `place` with one more field.
fn with(place: &Value, key: &str, value: Value) -> Value {
    let mut data = place.clone();
    data[key] = value;
    data
}
