//! An imitation of `codex app-server` 0.169.0, as `codex-cli` drives it.
//!
//! It implements `initialize`, `config/read`, `thread/start`, `thread/resume`, `mcpServerStatus/list`, `turn/start`,
//! `turn/steer` and `turn/interrupt`, the sandboxes by their names, MCP servers, the record of a conversation, and the bundled
//! list of models. Source: its recordings, and experiments.
//!
//! It reacts, which a replay cannot. The conformance suite (`codex_conformance`), `session_decisions` and the examples need
//! exchanges that no recording contains: any scenario at any access level, the caller's tools over a real connection, and
//! cancellation in the middle of a call. Where a recording is enough, as in `codex_transcripts`, the fake replays it.

mod servers;
mod session;
mod wire;

use std::time::Duration;

use serde_json::{Value, json};

use self::{
    servers::ThreadServers,
    session::{Config, Session, fresh_id},
    wire::Wire,
};
use super::{
    imitation::{AfterFault, Ask, Ending, Exit, Heard, Imitation, Moment, Next, Reaction, Trouble},
    servers::{Answer, ServerCall},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, StatusFault, ToolCall},
};

/// Model of a turn that names none.
const DEFAULT_MODEL: &str = "gpt-6.1-sol";

/// Maximum number of characters that one turn may begin with.
const MAX_CHARS: usize = 1 << 20;

/// The wait before the first repeat; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Imitates `codex`.
#[derive(Debug, Default)]
pub(super) struct Codex {
    config: Config,
    session: Session,
    servers: ThreadServers,
    wire: Wire,
    /// The conversation so far, without the turn that runs.
    history: ModelCall,
    turns: u32,
    last_text: String,
    failure: Option<Value>,
    input_is_over: bool,
    /// Input of `turn/steer`, with its names.
    steered: Vec<(Value, Value)>,
}

impl Codex {
    /// Answers requests until a turn is requested; `None` at the end of input.
    fn wait_to_be_asked(&mut self, stage: &mut Stage) -> Option<Ask> {
        while let Some(line) = stage.wait_for_line() {
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            let (id, params) = (&line["id"], &line["params"]);
            match line["method"].as_str() {
                Some("initialize") => {
                    let result = json!({ "userAgent": "nexus/0.169.0", "platformOs": "linux" });
                    stage.line(&json!({ "id": id, "result": result }));
                }
                Some("thread/start") => {
                    self.session = Session::start(params, stage.given());
                    self.thread_opened(id, params, stage);
                }
                Some("thread/resume") => match Session::resume(params, stage.given()) {
                    Some((session, history)) => {
                        (self.session, self.history) = (session, history);
                        self.thread_opened(id, params, stage);
                    }
                    None => {
                        let thread = params["threadId"].as_str().unwrap_or_default();
                        let message = format!("no rollout found for thread id {thread}");
                        stage.line(&json!({ "error": { "code": -32600, "message": message }, "id": id }));
                    }
                },
                Some("config/read") => {
                    let mut result = json!({ "config": self.config.whole, "origins": {} });
                    // Codex lists no tools, but reports its settings, those of highest precedence first.
                    if let Some(others) = stage.named_tools(&[]) {
                        let features = others.iter().map(|_| ("goals".to_owned(), json!(true)));
                        let features: serde_json::Map<_, _> = features.collect();
                        result["layers"] = json!([
                            { "name": { "type": "sessionFlags" }, "config": { "features": features } },
                            { "name": { "type": "user" }, "config": self.config.whole },
                        ]);
                    }
                    stage.line(&json!({ "id": id, "result": result }));
                }
                Some("mcpServerStatus/list") => {
                    stage.line(&json!({ "id": id, "result": self.servers.list() }));
                }
                Some("turn/start") => {
                    if let Some(ask) = self.turn_started(id, params, stage) {
                        return Some(ask);
                    }
                }
                Some("turn/steer") => {
                    let error = json!({ "code": -32600, "message": "no active turn to steer" });
                    stage.line(&json!({ "error": error, "id": id }));
                }
                Some("turn/interrupt") => stage.line(&json!({ "id": id, "result": {} })),
                _ => {}
            }
        }
        None
    }

    fn thread_opened(&mut self, id: &Value, params: &Value, stage: &mut Stage) {
        // Set the id first: the notifications about the servers already name the thread.
        self.wire.thread.clone_from(&self.session.id);
        self.servers = ThreadServers::connect(&self.config.whole, stage.given(), stage);
        self.servers.announce(&self.wire, stage);
        if let Some(message) = self.servers.lacks() {
            stage.line(&json!({ "error": { "code": -32603, "message": message }, "id": id }));
            return;
        }
        let model = params["model"].as_str().unwrap_or(DEFAULT_MODEL);
        self.history.model = Some(model.to_owned());
        let system =
            ["baseInstructions", "developerInstructions"].map(|key| params[key].as_str().unwrap_or_default());
        self.history.system = system.concat();
        let thread = json!({ "id": self.session.id, "path": self.session.path(), "cliVersion": "0.169.0" });
        let result = json!({
            "thread": thread, "model": model, "sandbox": { "type": self.session.sandbox },
            "approvalPolicy": "never",
        });
        stage.line(&json!({ "id": id, "result": result }));
        self.wire.notify("thread/started", json!({ "thread": thread }), stage);
    }

    fn turn_started(&mut self, id: &Value, params: &Value, stage: &mut Stage) -> Option<Ask> {
        let input = params["input"].as_array().cloned().unwrap_or_default();
        let texts: Vec<_> = input.iter().filter_map(|block| block["text"].as_str()).collect();
        let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
        // The real program counts characters, not bytes.
        if chars > MAX_CHARS {
            let message = format!("Input exceeds the maximum length of {MAX_CHARS} characters.");
            let data = json!({ "input_error_code": "input_too_large", "max_chars": MAX_CHARS });
            let error = json!({ "code": -32602, "data": data, "message": message });
            stage.line(&json!({ "error": error, "id": id }));
            return None;
        }
        self.turns += 1;
        self.wire.turn = fresh_id(self.turns + 1);
        let turn = json!({ "id": self.wire.turn, "items": [], "status": "inProgress", "error": null });
        stage.line(&json!({ "id": id, "result": { "turn": turn } }));
        self.wire.turn_notification("turn/started", "inProgress", &Value::Null, stage);
        self.wire.user_message(&Value::Null, &json!(input), stage);
        self.session.note("event_msg", &json!({ "type": "task_started", "turn_id": self.wire.turn }));
        texts.iter().for_each(|text| self.session.note_message("user", text));
        self.history.user_texts.extend(texts.into_iter().map(str::to_owned));
        self.history.images += input.iter().filter(|block| block["type"] == "image").count();
        self.history.effort = params["effort"].as_str().or(Some("low")).map(str::to_owned);
        self.history.tools = match self.config.has_tools {
            true => ["exec_command", "write_stdin", "apply_patch", "view_image"].map(str::to_owned).to_vec(),
            false => Vec::new(),
        };
        self.history.tools.extend(self.servers.names());
        (self.failure, self.last_text) = (None, String::new());
        Some(Ask::new(self.history.clone()).in_conversation(self.session.id.clone()))
    }

    /// Repeats a stream that broke off, up to the configured number of times.
    fn repeat(
        &mut self,
        tries: u32,
        wait: Duration,
        message: &str,
        info: &Value,
        stage: &mut Stage,
    ) -> AfterFault {
        let most = self.config.stream_retries;
        if tries > most {
            return self.give_up(message, info);
        }
        let status = info.as_object().and_then(|info| info.values().next()?.get("httpStatusCode").cloned());
        let info = json!({ "responseStreamDisconnected": { "httpStatusCode": status } });
        let notice = format!("Reconnecting... {tries}/{most}");
        // The exponent is bounded: the wait would overflow after many attempts.
        let wait = wait.max(FIRST_WAIT * 2_u32.saturating_pow(tries.min(6)));
        if stage.given().variable("RUST_LOG").is_some_and(|level| level.contains("responses_retry=warn")) {
            stage.error(&format!(
                "WARN codex_core::responses_retry: stream disconnected - retrying sampling request ({tries}/{most} in \
                 {wait:?})... sampling_error={message}\n"
            ));
        }
        self.wire.error(&notice, &info, &json!(message), true, stage);
        AfterFault::AskAgain(wait)
    }

    fn give_up(&mut self, message: &str, info: &Value) -> AfterFault {
        self.failure = Some(json!({ "message": message, "codexErrorInfo": info, "additionalDetails": null }));
        AfterFault::GiveUp
    }

    fn refused_by_status(&mut self, fault: &StatusFault, tries: u32, stage: &mut Stage) -> AfterFault {
        let status = fault.status;
        let words = fault.message.as_deref().unwrap_or("The simulated service refuses.");
        if fault.overloaded {
            return self.give_up(OVERLOADED, &json!("serverOverloaded"));
        }
        if let Some(limit) = &fault.limit {
            let primary = json!({
                "usedPercent": limit.used_percent, "windowDurationMins": limit.window_minutes,
                "resetsAt": limit.resets_at,
            });
            self.wire.rate_limits(&primary, &json!("rate_limit_reached"), stage);
            return self.give_up(
                "You\u{2019}ve hit your usage limit. Try again later.",
                &json!("usageLimitExceeded"),
            );
        }
        let info = json!({ "httpConnectionFailed": { "httpStatusCode": status } });
        let message = format!("unexpected status {status}: {words}");
        // Without this bound, adding the wait to the clock could overflow and stop the fake.
        let wait = Duration::from_secs(fault.retry_after.unwrap_or(0).min(99_999_999_999));
        match (status, fault.retry_after) {
            (400, _) if fault.body.is_some() => {
                self.give_up(fault.body.as_deref().unwrap_or_default(), &json!("other"))
            }
            // With a body of its own, the error names the whole response. Backends search it for the model.
            (404, _) if fault.body.is_some() => {
                let body = fault.body.as_deref().unwrap_or_default();
                let url = "http://127.0.0.1/v1/responses";
                self.give_up(&format!("unexpected status 404 Not Found: {body}, url: {url}"), &info)
            }
            (400, _) => {
                let code = fault.code.as_deref().unwrap_or("invalid_request_error");
                let body = json!({ "error": { "message": words, "type": code, "code": code } });
                self.give_up(&body.to_string(), &json!("other"))
            }
            (404, _) => self.give_up(words, &json!("modelNotFound")),
            // Codex repeats a 429 only if the response names a time. Source: the recordings fail-429*.
            (429, Some(_)) if tries <= self.config.stream_retries => {
                self.repeat(tries, wait, &message, &info, stage)
            }
            (429, _) => {
                let info = json!({ "responseTooManyFailedAttempts": { "httpStatusCode": 429 } });
                self.give_up("exceeded retry limit, last status: 429 Too Many Requests", &info)
            }
            (500, _) => self.repeat(tries, wait, HIGH_DEMAND, &json!("internalServerError"), stage),
            _ => self.repeat(tries, wait, &message, &info, stage),
        }
    }
}

const OVERLOADED: &str = "Selected model is at capacity. Please try a different model.";
const HIGH_DEMAND: &str =
    "We\u{2019}re currently experiencing high demand, which may cause temporary errors.";
const CUT: &str =
    "stream disconnected before completion: Transport error: network error: error decoding response body";
const UNREADABLE: &str =
    "stream disconnected before completion: UTF8 error: invalid utf-8 sequence of 1 bytes from index 0";
const UNFINISHED: &str = "stream disconnected before completion: stream closed before response.completed";

impl Imitation for Codex {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        let words: Vec<_> = stage.given().arguments.iter().skip(1).cloned().collect();
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["debug", "models", "--bundled"] => {
                stage.line(&models());
                return Err(Exit::code(0));
            }
            ["app-server", ..] => {}
            _ => {
                stage.error("error: this imitation knows app-server and debug models\n");
                return Err(Exit::code(2));
            }
        }
        self.config = Config::read(stage.given());
        self.wait_to_be_asked(stage).ok_or(Exit::code(0))
    }

    fn objection(&self, call: &ToolCall) -> Option<String> {
        match self.servers.tool(call) {
            Some(_) => None,
            None => self.session.objection(call, &self.config),
        }
    }

    fn input(&mut self, stage: &mut Stage) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, input) in std::mem::take(&mut self.steered) {
            self.wire.user_message(&name, &input, stage);
            let said = input.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str());
            texts.extend(said.map(str::to_owned));
        }
        texts.iter().for_each(|text| self.session.note_message("user", text));
        self.history.user_texts.extend(texts.iter().cloned());
        texts
    }

    // The turn ends only when nothing waits.
    fn late_input(&mut self, stage: &mut Stage) -> Vec<String> {
        self.input(stage)
    }

    fn call_server(&mut self, call: &ToolCall) -> Option<ServerCall> {
        self.servers.call(call)?.ok()
    }

    fn answer(&mut self, call: &ToolCall, _stage: &mut Stage) -> Result<String, String> {
        let objection = self.servers.call(call).and_then(Result::err);
        Err(objection.unwrap_or_else(|| format!("unsupported call: {}", tool_name(call))))
    }

    fn runs_alone(&self, call: &ToolCall) -> bool {
        self.servers.runs_alone(call)
    }

    fn told(&self, call: &ToolCall, answer: &Answer) -> String {
        match self.servers.tool(call) {
            Some(_) => servers::told(answer),
            None => answer.text().to_owned(),
        }
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        match moment {
            Moment::CallBegins { .. } => self.wire.call_begins(),
            Moment::Text(piece) => self.wire.text(piece, stage),
            Moment::Thinking(piece) => self.wire.thinking(piece, stage),
            Moment::ToolAsked { .. } => {}
            Moment::MessageEnds { text, calls, finish, usage, .. } => {
                // The program drops a refusal, and does not complete what a filter cut.
                if matches!(finish, Finish::End | Finish::Pause | Finish::MaxTokens) {
                    self.wire.message_ends(text, stage);
                    if !text.is_empty() {
                        self.session.note_message("assistant", text);
                        (*text).clone_into(&mut self.last_text);
                    }
                }
                for (id, call) in *calls {
                    let (name, arguments) = (tool_name(call), tool_arguments(call).to_string());
                    let item = json!({ "type": "function_call", "name": name, "arguments": arguments, "call_id": id });
                    self.session.note("response_item", &item);
                }
                self.wire.usage(*usage, stage);
            }
            Moment::ToolBegins { id, call } => self.wire.tool_begins(id, call, stage),
            Moment::ToolEnds { id, call, answer, is_denied } => {
                // Codex reports no end of a refused call. Only the session log has it.
                if !is_denied {
                    self.wire.tool_ends(id, call, answer, stage);
                }
                let output = self.told(call, answer);
                let item = json!({ "type": "function_call_output", "call_id": id, "output": output });
                self.session.note("response_item", &item);
            }
        }
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault {
        let unreachable = json!({ "httpConnectionFailed": { "httpStatusCode": null } });
        let mut repeat =
            |message: &str, info: &Value| self.repeat(tries, Duration::ZERO, message, info, stage);
        match trouble {
            Trouble::Fault(Fault::ResetBeforeHeaders) => {
                repeat("stream disconnected before completion: error sending request", &json!("other"))
            }
            Trouble::Fault(Fault::Garbage) => repeat(UNREADABLE, &json!("other")),
            Trouble::Refused => repeat("Connection failed: error sending request", &unreachable),
            Trouble::Fault(Fault::Status(fault)) => self.refused_by_status(fault, tries, stage),
            Trouble::Fault(Fault::StreamError { code, .. }) if code.contains("overloaded") => {
                self.give_up(OVERLOADED, &json!("serverOverloaded"))
            }
            Trouble::Fault(Fault::StreamError { message, .. }) => {
                repeat(&format!("stream disconnected before completion: {message}"), &json!("other"))
            }
            Trouble::Fault(Fault::Torn { .. }) => repeat(CUT, &json!("other")),
            Trouble::Fault(_) => repeat(UNFINISHED, &json!("other")),
            Trouble::BadEnd(Finish::MaxTokens) => {
                self.give_up("Incomplete response returned, reason: max_output_tokens", &json!("other"))
            }
            Trouble::BadEnd(Finish::ContextExceeded) => {
                let message = "Codex ran out of room in the model's context window.";
                self.give_up(message, &json!("contextWindowExceeded"))
            }
            Trouble::BadEnd(Finish::ContentFilter) => repeat(
                "stream disconnected before completion: Incomplete response returned, reason: content_filter",
                &json!("other"),
            ),
            Trouble::BadEnd(_) | Trouble::Empty => AfterFault::Accept,
        }
    }

    fn heard(&mut self, heard: &Heard, stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Line(line) => {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                // Input for another turn is ignored: the turn that the client means may have ended.
                if line["method"] == "turn/steer" && line["params"]["expectedTurnId"] == self.wire.turn {
                    let params = &line["params"];
                    self.steered.push((params["clientUserMessageId"].clone(), params["input"].clone()));
                    stage.line(&json!({ "id": line["id"], "result": { "turnId": self.wire.turn } }));
                }
                if line["method"] != "turn/interrupt" || stage.ignores_signals() {
                    return Reaction::GoOn;
                }
                stage.line(&json!({ "id": line["id"], "result": {} }));
                Reaction::Interrupt { ends_tools: true }
            }
            Heard::EndOfInput if stage.ignores_signals() => Reaction::GoOn,
            Heard::EndOfInput => {
                // The end of input ends the whole program, because no client is left that could start a turn.
                self.input_is_over = true;
                Reaction::Interrupt { ends_tools: true }
            }
            Heard::Signal(_) if stage.ignores_signals() => Reaction::GoOn,
            Heard::Signal(number) => Reaction::Die(*number),
        }
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        if self.input_is_over {
            return Next::Exit(Exit::code(0));
        }
        let mut end =
            json!({ "type": "task_complete", "turn_id": self.wire.turn, "last_agent_message": null });
        let (status, error) = match (ending, self.failure.take()) {
            (Ending::Interrupted, _) => ("interrupted", Value::Null),
            (Ending::Failed, Some(failure)) => ("failed", failure),
            _ => ("completed", Value::Null),
        };
        match status {
            "failed" => {
                let message = error["message"].as_str().unwrap_or_default();
                end["error"] = json!({ "message": message, "codex_error_info": error["codexErrorInfo"] });
                self.wire.error(message, &error["codexErrorInfo"], &Value::Null, false, stage);
            }
            _ if !self.last_text.is_empty() => end["last_agent_message"] = json!(self.last_text),
            _ => {}
        }
        self.session.note("event_msg", &end);
        self.wire.turn_notification("turn/completed", status, &error, stage);
        if !self.last_text.is_empty() {
            self.history.assistant_texts.push(self.last_text.clone());
        }
        match self.wait_to_be_asked(stage) {
            Some(ask) => Next::Turn(Box::new(ask)),
            None => Next::Exit(Exit::code(0)),
        }
    }
}

/// The program's list of models.
fn models() -> Value {
    let entry = |slug: &str, priority: u32, efforts: &[&str]| {
        let levels: Vec<_> = efforts.iter().map(|effort| json!({ "effort": effort })).collect();
        json!({
            "slug": slug, "visibility": "list", "priority": priority, "supported_reasoning_levels": levels,
            "shell_type": "unified_exec", "apply_patch_tool_type": "freeform",
        })
    };
    let most = ["low", "medium", "high", "xhigh", "max", "ultra"];
    json!({ "models": [entry(DEFAULT_MODEL, 1, &most), entry("gpt-5.5", 13, &most[..4])] })
}

fn tool_name(call: &ToolCall) -> String {
    match call {
        ToolCall::WriteFile { .. } => "apply_patch".to_owned(),
        ToolCall::Shell { .. } | ToolCall::ReadFile { .. } => "exec_command".to_owned(),
        ToolCall::Mcp { server, tool, .. } => format!("mcp__{server}{tool}"),
        ToolCall::Function { name, .. }
        | ToolCall::RawFunction { name, .. }
        | ToolCall::Custom { name, .. } => name.clone(),
    }
}

fn tool_arguments(call: &ToolCall) -> Value {
    match call {
        ToolCall::WriteFile { path, text } => json!({ "path": path, "text": text }),
        ToolCall::Mcp { arguments, .. } | ToolCall::Function { arguments, .. } => arguments.clone(),
        call => json!({ "cmd": command(call) }),
    }
}

fn command(call: &ToolCall) -> String {
    match call {
        ToolCall::Shell { command } => command.clone(),
        ToolCall::ReadFile { path } => format!("cat -- '{path}'"),
        _ => String::new(),
    }
}
