//! Grok's harness, imitated: `--output-format streaming-json`, with the session folder that a backend reads.
//!
//! Modelled on observed output of grok 1.0.41.
//!
//! It reacts, which a replay cannot. The conformance suite (`grok_conformance`), `session_decisions` and the examples need
//! exchanges that no recording contains: any scenario at any access level, the caller's tools over a real connection, and
//! cancellation in the middle of a call. Where a recording is enough, as in `grok_transcripts`, the fake replays it.

mod request;
mod sentence;
mod servers;
mod session;

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    imitation::{AfterFault, Ask, Ending, Exit, Imitation, Moment, Next, Trouble},
    servers::{Answer, ServerCall, Servers},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, ToolCall, Usage},
};
use request::{Request, Tool};
use session::Session;

/// Pause before the harness repeats a model call.
const RETRY_DELAY: Duration = Duration::from_millis(1700);
/// Maximum number of tries, with the first.
const TRIES: u32 = 3;

/// Grok's harness.
#[derive(Debug, Default)]
pub(super) struct Grok {
    request: Request,
    session: Session,
    servers: Servers,
    /// Maximum size of a server's result for the model, in bytes.
    max_answer_bytes: Option<usize>,
    /// True if the servers' tools are connected but not yet listed.
    lists_late: bool,
    model_calls: u32,
    usage: Option<Tokens>,
    cost_ticks: Option<u64>,
    /// End of the turn, if it is not an answer.
    end: End,
}

#[derive(Debug, Default)]
enum End {
    #[default]
    Answer,
    Error(String),
    Refusal,
    MaxTurns,
}

/// Token counts in the vendor's form: `input` excludes cached tokens, and `output` includes reasoning.
#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    input: u64,
    cached: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

impl Tokens {
    fn of(usage: &Usage) -> Self {
        Self {
            input: usage.input,
            cached: usage.cached,
            cache_write: usage.cache_write,
            output: usage.output + usage.reasoning,
            reasoning: usage.reasoning,
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            input: self.input + other.input,
            cached: self.cached + other.cached,
            cache_write: self.cache_write + other.cache_write,
            output: self.output + other.output,
            reasoning: self.reasoning + other.reasoning,
        }
    }

    fn json(self) -> Value {
        json!({
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cached,
            "cache_creation_input_tokens": self.cache_write,
            "reasoning_tokens": self.reasoning,
        })
    }
}

impl Grok {
    fn show_tools(&self, stage: &mut Stage) {
        let mut tools: Vec<String> = self.request.tools.iter().map(|tool| tool.wire.to_owned()).collect();
        tools.extend(self.servers.tools().iter().map(servers::name));
        let mut line = json!({ "type": "available_commands", "commands": ["compact", "context"] });
        if let Some(tools) = stage.named_tools(&tools) {
            line["tools"] = json!(tools);
        }
        stage.line(&line);
    }

    fn list_late(&mut self, stage: &mut Stage) {
        if std::mem::take(&mut self.lists_late) {
            self.show_tools(stage);
        }
    }

    fn fail(&self, message: &str, stage: &mut Stage) -> Exit {
        stage.line(&json!({ "type": "error", "message": message }));
        stage.error(&format!("Error: {message}\n"));
        Exit::code(1)
    }

    fn show_call(&self, id: &str, call: &ToolCall, stage: &mut Stage) {
        let (name, input) = words_of(call);
        let kind = Tool::by_wire(&name).map_or("other", |tool| tool.kind);
        stage.line(&json!({
            "type": "tool_call", "toolCallId": id, "title": name, "kind": kind, "status": "pending",
            "toolName": name, "rawInput": input, "content": [], "locations": [],
        }));
        stage.line(&json!({
            "type": "tool_call_update", "toolCallId": id, "status": null, "content": [], "rawOutput": null,
            "locations": [],
        }));
    }

    fn show_answer(
        &mut self,
        id: &str,
        call: &ToolCall,
        answer: &Answer,
        was_refused: bool,
        stage: &mut Stage,
    ) {
        let text = answer.text();
        let is_good = answer.outcome.is_ok();
        if let (Some((tool, _)), false) = (servers::meant(call, &self.servers), was_refused) {
            stage.line(&json!({
                "type": "tool_call_update", "toolCallId": id,
                "status": if is_good { "completed" } else { "failed" }, "content": [],
                "rawOutput": servers::raw_output(tool, answer), "locations": [],
            }));
            return self.session.tool_result(id, &self.told(call, answer));
        }
        // A command that ends with another status than zero counts as completed.
        let is_completed = !was_refused && (is_good || matches!(call, ToolCall::Shell { .. }));
        let raw = match call {
            ToolCall::Shell { command } if !was_refused => json!({
                "type": "Bash", "command": command, "exit_code": i32::from(!is_good),
                "output": text.as_bytes(), "output_for_prompt": text, "truncated": false, "signal": null,
                "timed_out": false, "current_dir": self.request.directory,
            }),
            _ => Value::Null,
        };
        stage.line(&json!({
            "type": "tool_call_update", "toolCallId": id,
            "status": if is_completed { "completed" } else { "failed" },
            "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
            "rawOutput": raw, "locations": [],
        }));
        self.session.tool_result(id, text);
    }

    fn end_of_response(
        &mut self,
        text: &str,
        thinking: &str,
        calls: &[(String, ToolCall)],
        usage: Option<&Usage>,
        stage: &mut Stage,
    ) {
        self.model_calls += 1;
        // A complete response also lists the tools, so the late list is not due any more.
        self.lists_late = false;
        self.show_tools(stage);
        match usage {
            Some(usage) => {
                let tokens = Tokens::of(usage);
                self.usage = Some(self.usage.unwrap_or_default().plus(tokens));
                self.cost_ticks = match (self.cost_ticks, usage.cost_ticks) {
                    // Stay without a cost if no call had one: a sum of zero would mean that the turn was free.
                    (None, None) => None,
                    (before, now) => Some(before.unwrap_or(0) + now.unwrap_or(0)),
                };
                stage.line(&json!({ "type": "usage", "usage": tokens.json() }));
            }
            None => stage.line(&json!({ "type": "usage" })),
        }
        let calls = calls.iter().map(|(id, call)| {
            let (name, input) = words_of(call);
            json!({ "id": id, "name": name, "arguments": input.to_string() })
        });
        self.session.assistant(text, thinking, calls.collect());
    }

    fn end_line(&self, stop_reason: &str) -> Value {
        let mut end = json!({
            "type": "end", "stopReason": stop_reason, "sessionId": self.request.session,
            "requestId": "00000000-0000-4000-8000-000000000000",
        });
        if let (Value::Object(end), Some(usage)) = (&mut end, self.usage) {
            end.insert("usage".into(), usage.json());
            end.insert("num_turns".into(), self.model_calls.into());
            let of_model = json!({ self.request.model.clone(): { "modelCalls": self.model_calls } });
            end.insert("modelUsage".into(), of_model);
            if let Some(ticks) = self.cost_ticks {
                end.insert("total_cost_usd_ticks".into(), ticks.into());
            }
        }
        end
    }

    fn ask_again(&mut self, tries: u32, reason: &str) -> AfterFault {
        self.session.retry(tries, reason);
        AfterFault::AskAgain(RETRY_DELAY)
    }
}

impl Imitation for Grok {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        self.request = match Request::read(stage.given()) {
            Ok(request) => request,
            Err(message) => return Err(self.fail(&message, stage)),
        };
        self.session = Session::open(&self.request);
        self.session.prompt(&self.request.prompt);
        self.show_tools(stage);
        self.show_tools(stage);
        self.max_answer_bytes =
            stage.given().variable("GROK_MAX_MCP_OUTPUT_BYTES").and_then(|bytes| bytes.parse().ok());
        self.servers = servers::connect(&self.request.grok_home, stage);
        self.session.servers_are_there(&self.servers);
        // The real program reports the tools of servers only after the model's first words.
        self.lists_late = !self.servers.tools().is_empty();
        if !self.request.hooks_let_the_prompt_through() {
            stage.line(&self.end_line("cancelled"));
            return Err(Exit::code(0));
        }
        let mut user_texts = self.session.earlier_prompts().to_vec();
        user_texts.push(self.request.prompt.clone());
        let call = ModelCall {
            model: Some(self.request.model.clone()),
            effort: Some(self.request.effort.clone()),
            system: self.request.system.clone(),
            user_texts,
            assistant_texts: self.session.earlier_answers().to_vec(),
            images: self.request.images,
            tools: self.request.tools.iter().map(|tool| tool.wire.to_owned()).collect(),
            ..ModelCall::default()
        };
        Ok(Ask::new(call).in_conversation(self.request.session.clone()))
    }

    fn objection(&self, call: &ToolCall) -> Option<String> {
        let (name, input) = words_of(call);
        let is_offered = self.request.tools.iter().any(|tool| tool.wire == name);
        if let ("use_tool", true, None) = (name.as_str(), is_offered, servers::meant(call, &self.servers)) {
            let meant = input["tool_name"].as_str().unwrap_or_default();
            return Some(format!("Tool `{meant}` failed via `use_tool`: Tool not found: {meant}"));
        }
        // The CLI also accepts a tool of a server under the tool's own name.
        let is_offered = is_offered || servers::meant(call, &self.servers).is_some();
        (!is_offered).then(|| {
            format!(
                "Failed to parse arguments for tool `{name}`: Tool not found: {name}\n\n\
                 Your original arguments:\n{input}"
            )
        })
    }

    fn call_server(&mut self, call: &ToolCall) -> Option<ServerCall> {
        let (tool, arguments) = servers::meant(call, &self.servers)?;
        Some(self.servers.call(&tool.server, &tool.name, &arguments))
    }

    fn answer(&mut self, call: &ToolCall, _stage: &mut Stage) -> Result<String, String> {
        match words_of(call) {
            (name, input) if name == "search_tool" => {
                Ok(servers::search(input["query"].as_str().unwrap_or_default(), &self.servers))
            }
            (name, _) => Err(format!("Tool not found: {name}")),
        }
    }

    fn told(&self, call: &ToolCall, answer: &Answer) -> String {
        match servers::meant(call, &self.servers) {
            Some((tool, _)) => servers::told(tool, answer, self.max_answer_bytes),
            None => answer.text().to_owned(),
        }
    }

    fn pictures_shown(&self, _answer: &Answer) -> usize {
        0
    }

    fn is_at_its_limit(&self) -> bool {
        self.request.max_turns.is_some_and(|most| self.model_calls >= most)
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        match moment {
            Moment::Text(text) => {
                stage.line(&json!({ "type": "text", "data": text }));
                self.list_late(stage);
            }
            Moment::Thinking(text) => {
                stage.line(&json!({ "type": "thought", "data": text }));
                self.list_late(stage);
            }
            Moment::MessageEnds { text, thinking, calls, finish, usage } => {
                // An empty response, or a response that broke off, does not count.
                let is_whole =
                    matches!(finish, Finish::End | Finish::Pause | Finish::Refusal | Finish::ContentFilter);
                if is_whole && !(text.is_empty() && calls.is_empty() && *finish == Finish::End) {
                    self.end_of_response(text, thinking, calls, *usage, stage);
                }
            }
            Moment::ToolBegins { id, call } => self.show_call(id, call, stage),
            Moment::ToolEnds { id, call, answer, is_denied } => {
                // A denied call has no beginning of its own, so show it before its result.
                if *is_denied {
                    self.show_call(id, call, stage);
                }
                self.show_answer(id, call, answer, *is_denied, stage);
            }
            _ => {}
        }
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, _stage: &mut Stage) -> AfterFault {
        let (message, most_tries) = match trouble {
            Trouble::Refused => (sentence::unreachable(), TRIES),
            // The program repeats an empty response once, and a lost connection more often.
            Trouble::Empty => (sentence::EMPTY.to_owned(), 2),
            Trouble::BadEnd(Finish::Refusal | Finish::ContentFilter) => {
                self.end = End::Refusal;
                return AfterFault::GiveUp;
            }
            Trouble::BadEnd(Finish::ContextExceeded) => (sentence::too_long(), 1),
            Trouble::BadEnd(_) => (sentence::truncated(), 1),
            Trouble::Fault(Fault::Status(fault)) => (sentence::of_status(fault), sentence::tries(fault)),
            Trouble::Fault(Fault::StreamError { code, message }) => {
                (sentence::in_stream(code, message), TRIES)
            }
            Trouble::Fault(Fault::Garbage) => (sentence::UNREADABLE.to_owned(), 1),
            Trouble::Fault(Fault::ResetBeforeHeaders) => (sentence::unreachable(), TRIES),
            Trouble::Fault(_) => (sentence::no_last_event(), TRIES),
        };
        if tries < most_tries {
            return self.ask_again(tries, &message);
        }
        self.session.failed(&message);
        self.end = End::Error(message);
        AfterFault::GiveUp
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        // A failure without an error of the model is the limit on turns.
        if ending == Ending::Failed && matches!(self.end, End::Answer) {
            self.end = End::MaxTurns;
        }
        let exit = match std::mem::take(&mut self.end) {
            End::Answer => {
                stage.line(&self.end_line("end_turn"));
                Exit::code(0)
            }
            End::Refusal => {
                stage.line(&self.end_line("refusal"));
                Exit::code(0)
            }
            End::MaxTurns => {
                stage.line(&json!({ "type": "max_turns_reached" }));
                stage.line(&self.end_line("cancelled"));
                stage.error("Error: max turns reached\n");
                Exit::code(1)
            }
            End::Error(message) => self.fail(&message, stage),
        };
        Next::Exit(exit)
    }
}

/// A call in the vendor's words: the tool's name on the wire, and its arguments.
fn words_of(call: &ToolCall) -> (String, Value) {
    match call {
        ToolCall::Shell { command } => {
            ("run_terminal_command".into(), json!({ "command": command, "description": "Run a command" }))
        }
        ToolCall::WriteFile { path, text } => ("write".into(), json!({ "file_path": path, "content": text })),
        ToolCall::ReadFile { path } => ("read_file".into(), json!({ "target_file": path })),
        ToolCall::Mcp { server, tool, arguments } => {
            ("use_tool".into(), json!({ "tool_name": format!("{server}__{tool}"), "tool_input": arguments }))
        }
        ToolCall::Function { name, arguments, .. } => (name.clone(), arguments.clone()),
        ToolCall::RawFunction { name, arguments } => (name.clone(), Value::String(arguments.clone())),
        ToolCall::Custom { name, input, .. } => (name.clone(), json!({ "input": input })),
    }
}
