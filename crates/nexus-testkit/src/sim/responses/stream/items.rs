//! The parts of a reply as output items, each with its preceding events.

use serde_json::{Value, json};

use super::{Flavour, Stream, WireCall, with};
use crate::sim::reply::{Odd, Part, long_text};
use crate::sim::responses::tools;
use crate::sim::tool_call::ToolCall;
use crate::sim::xai;

impl Stream<'_> {
    /// Sends one part of the reply. With `left_open`, sends no end of the part.
    pub(super) fn part(&mut self, part: &Part, left_open: bool) {
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

    fn wire_call(&self, wanted: &ToolCall) -> WireCall {
        match self.flavour {
            Flavour::OpenAi => tools::render(wanted, self.call.conversation),
            Flavour::Xai => xai::render_call(wanted, self.call.conversation),
        }
    }

    pub(super) fn message(&mut self, text: &str, left_open: bool) {
        let id = self.id("msg");
        let index = self.output.len();
        // A refusal has names of its own for the same events.
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
        // The last event repeats the whole item. Clients read the arguments from it and may ignore the deltas.
        item[key] = json!(body);
        item["status"] = json!("completed");
        self.done(item);
    }

    /// A search by the vendor itself. xAI reports it as a call of a tool that the client did not offer.
    fn hosted_search(&mut self) {
        let item = match self.flavour {
            Flavour::OpenAi => json!({
                "type": "web_search_call", "id": self.id("ws"), "status": "completed",
                "action": {"type": "search", "query": "herons"},
            }),
            // The client must not answer this call, although it has the form of a tool of the client.
            Flavour::Xai => json!({
                "type": "custom_tool_call", "id": self.id("ctc"), "call_id": self.id("xs_call"),
                "name": "x_keyword_search", "input": "{\"query\":\"herons\"}", "status": "completed",
            }),
        };
        self.add(&item);
        self.done(item);
    }
}
