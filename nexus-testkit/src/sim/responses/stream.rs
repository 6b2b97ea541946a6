//! A reply as Responses events, in OpenAI's flavour and in xAI's.

use serde_json::{Value, json};

use super::tools;
use crate::sim::fault::{Fault, RateLimit};
use crate::sim::reply::{Finish, Odd, Part, Reply, Usage, long_text};
use crate::sim::server::ModelCall;
use crate::sim::tool_call::ToolCall;
use crate::sim::wire::{Answer, EventWriter, Step};
use crate::sim::xai;

/// Whose variant of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sim) enum Flavour {
    /// OpenAI's: the terminal event carries no output.
    OpenAi,
    /// xAI's: numbered events, the terminal event repeats the output, costs and context are told.
    Xai,
}

/// A tool call with the names of the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) enum WireCall {
    Function { namespace: Option<String>, name: String, arguments: String },
    Custom { namespace: Option<String>, name: String, input: String },
}

/// The reply as one JSON body, as for a request that asks for no stream.
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
    /// Why the answer is taken to go round in a circle, if it is.
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

    fn part(&mut self, part: &Part, left_open: bool) {
        match part {
            Part::Text { text } => self.message(text, left_open),
            Part::Long { bytes } => self.message(&long_text(*bytes), left_open),
            Part::Thinking { text } => self.summary(text, left_open),
            Part::RawThinking { text } => self.raw_thinking(text, left_open),
            Part::Call(wanted) => {
                let wire = self.wire_call(wanted);
                self.tool(&wire);
            }
            Part::Odd { odd: Odd::HostedSearch } => self.hosted_search(),
            Part::Odd { odd: Odd::LoopCheck } => {
                let check = json!({"triggers": ["tail_repetition:4@response"]});
                self.event("response.doom_loop_check", json!({ "doom_loop_check": check }));
                self.triggers = Some(check);
            }
            Part::Odd { odd: Odd::Event } => {
                self.event("response.simulated_news", json!({"detail": 1}));
            }
            Part::Odd { odd: Odd::Item } => {
                let item = json!({"type": "simulated_item", "id": self.id("sim"), "status": "completed"});
                self.add(&item);
                self.done(item);
            }
            Part::Odd { odd: Odd::Garbage } => {
                self.writer.raw("event: response.output_text.delta\ndata: {\"type\": \"respon\n\n");
            }
            Part::Odd { odd: Odd::Comment } => self.writer.raw(": simulated comment\n\n"),
        }
    }

    /// A search by the vendor itself. xAI tells it as a call of a tool that nobody offered.
    fn hosted_search(&mut self) {
        let item = match self.flavour {
            Flavour::OpenAi => json!({
                "type": "web_search_call", "id": self.id("ws"), "status": "completed",
                "action": {"type": "search", "query": "herons"},
            }),
            Flavour::Xai => json!({
                "type": "custom_tool_call", "id": self.id("ctc"), "call_id": self.id("xs_call"),
                "name": "x_keyword_search", "input": "{\"query\":\"herons\"}", "status": "completed",
            }),
        };
        self.add(&item);
        self.done(item);
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

    fn wire_call(&self, wanted: &ToolCall) -> WireCall {
        match self.flavour {
            Flavour::OpenAi => tools::render(wanted, self.call.conversation),
            Flavour::Xai => xai::render_call(wanted, self.call.conversation),
        }
    }

    fn message(&mut self, text: &str, left_open: bool) {
        let id = self.id("msg");
        let index = self.output.len();
        let (kind, key) = if self.refusing { ("refusal", "refusal") } else { ("output_text", "text") };
        let content = |text: &str| {
            if kind == "refusal" {
                json!({"type": kind, key: text})
            } else {
                json!({"type": kind, key: text, "annotations": []})
            }
        };
        let place = json!({"item_id": id, "output_index": index, "content_index": 0});
        let item = |status: &str, content: Value| {
            json!({
                "type": "message", "id": id, "role": "assistant",
                "status": status, "content": content,
            })
        };
        self.add(&item("in_progress", json!([])));
        self.event("response.content_part.added", with(&place, "part", content("")));
        let delta = format!("response.{kind}.delta");
        self.pieces(&delta, text, &place);
        if left_open {
            return;
        }
        self.event(&format!("response.{kind}.done"), with(&place, key, json!(text)));
        self.event("response.content_part.done", with(&place, "part", content(text)));
        let finished = item("completed", json!([content(text)]));
        self.done(finished);
    }

    fn summary(&mut self, text: &str, left_open: bool) {
        let id = self.id("rs");
        let place = json!({"item_id": id, "output_index": self.output.len(), "summary_index": 0});
        let part = |text: &str| json!({"type": "summary_text", "text": text});
        self.add(&json!({"type": "reasoning", "id": id, "summary": []}));
        self.event("response.reasoning_summary_part.added", with(&place, "part", part("")));
        self.pieces("response.reasoning_summary_text.delta", text, &place);
        if left_open {
            return;
        }
        self.event("response.reasoning_summary_text.done", with(&place, "text", json!(text)));
        self.event("response.reasoning_summary_part.done", with(&place, "part", part(text)));
        let encrypted = self.encrypted();
        self.done(json!({
            "type": "reasoning", "id": id, "summary": [part(text)], "encrypted_content": encrypted,
        }));
    }

    fn raw_thinking(&mut self, text: &str, left_open: bool) {
        let id = self.id("rs");
        let place = json!({"item_id": id, "output_index": self.output.len(), "content_index": 0});
        self.add(&json!({"type": "reasoning", "id": id, "summary": []}));
        self.pieces("response.reasoning_text.delta", text, &place);
        if left_open {
            return;
        }
        self.event("response.reasoning_text.done", with(&place, "text", json!(text)));
        let content = json!([{"type": "reasoning_text", "text": text}]);
        let encrypted = self.encrypted();
        self.done(json!({
            "type": "reasoning", "id": id, "summary": [],
            "content": content, "encrypted_content": encrypted,
        }));
    }

    fn tool(&mut self, wire: &WireCall) {
        let (kind, prefix, key, events, namespace, name, body) = match wire {
            WireCall::Function { namespace, name, arguments } => (
                "function_call",
                "fc",
                "arguments",
                "response.function_call_arguments",
                namespace,
                name,
                arguments,
            ),
            WireCall::Custom { namespace, name, input } => (
                "custom_tool_call",
                "ctc",
                "input",
                "response.custom_tool_call_input",
                namespace,
                name,
                input,
            ),
        };
        let id = self.id(prefix);
        let place = json!({"item_id": id, "output_index": self.output.len()});
        let mut item = json!({
            "type": kind, "id": id, "call_id": self.call.tool_call_id(self.id("call")), "name": name,
            key: "", "status": "in_progress",
        });
        if let Some(namespace) = namespace {
            item["namespace"] = json!(namespace);
        }
        self.add(&item);
        self.pieces(&format!("{events}.delta"), body, &place);
        self.event(&format!("{events}.done"), with(&place, key, json!(body)));
        item[key] = json!(body);
        item["status"] = json!("completed");
        self.done(item);
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
            response["end_turn"] = json!(false);
        }
        self.event(&format!("response.{name}"), json!({ "response": response }));
        if self.flavour == Flavour::Xai {
            self.writer.raw("data: [DONE]\n\n");
        }
    }

    /// The response as it stands at the end, without its output.
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

/// `place` with one more field.
fn with(place: &Value, key: &str, value: Value) -> Value {
    let mut data = place.clone();
    data[key] = value;
    data
}
