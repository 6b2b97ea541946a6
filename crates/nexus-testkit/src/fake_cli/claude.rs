//! An imitation of Claude Code 2.1.197, driven by JSON lines in both directions.
//!
//! It implements everything that `claude-cli` uses: the control requests `initialize`, `mcp_set_servers`, `mcp_status` and
//! `interrupt`, user messages, the access levels by their options, MCP servers, and stored conversations. It repeats a broken
//! stream without streaming and without a message, as that version does. Source: its recordings, and experiments.
//!
//! It reacts, which a replay cannot. The conformance suite (`claude_conformance`), `session_decisions` and the examples need
//! exchanges that no recording contains: any scenario at any access level, the caller's tools over a real connection, and
//! cancellation in the middle of a call. Where a recording is enough, as in `claude_transcripts`, the fake replays it.

mod record;
mod servers;
mod session;
mod wire;

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};

use self::{
    record::Record,
    session::Session,
    wire::{Wire, tool_input, tool_name},
};
use super::{
    imitation::{AfterFault, Ask, Ending, Exit, Heard, Imitation, Moment, Next, Reaction, Trouble},
    notes::Given,
    servers::{Answer, ServerCall, Servers},
    stage::Stage,
};
use crate::{
    model_call::ModelCall,
    sim::{Fault, Finish, Standing, StatusFault, ToolCall},
};

/// Default number of repetitions of a model call; the environment can change it.
const MAX_RETRIES: u32 = 10;

/// The wait before the first repeat; it doubles. A tenth of the real one.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Longest `Retry-After` that the harness respects, in seconds.
const PATIENCE_SECONDS: u64 = 60;

/// Number of requests to continue after the model reached its token limit.
const CONTINUATIONS: u32 = 3;

/// Imitates `claude`.
#[derive(Debug, Default)]
pub(super) struct Claude {
    wire: Wire,
    record: Record,
    session: Session,
    servers: Servers,
    /// Next request of this process, without the new words.
    history: ModelCall,
    schema: Option<Value>,
    was_nudged: bool,
    structured: Option<Value>,
    failure: Option<Failure>,
    system: Option<String>,
    is_tool_running: bool,
    is_streamless: bool,
    last_text: String,
    /// Messages that arrived while a turn ran, with their names.
    queued: VecDeque<(Value, Value)>,
}

/// Reason why no answer was produced, in the vendor's words.
#[derive(Clone, Debug)]
struct Failure {
    subtype: &'static str,
    status: Option<u16>,
    class: &'static str,
    sentence: String,
    stop_reason: &'static str,
}

impl Failure {
    fn new(status: Option<u16>, class: &'static str, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { subtype: "success", status, class, sentence, stop_reason: "stop_sequence" }
    }
}

impl Claude {
    /// Waits for a user message; `None` at the end of input.
    fn wait_to_be_asked(&mut self, stage: &mut Stage) -> Option<Ask> {
        // Input that came too late for a turn starts the next one.
        if let Some((name, content)) = self.queued.pop_front() {
            let ask = self.asked(&content, stage);
            self.repeat_message(&name, &content, stage);
            return Some(ask);
        }
        while let Some(line) = stage.wait_for_line() {
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            match line["type"].as_str() {
                Some("control_request") => self.control(&line, stage),
                Some("user") => return Some(self.asked(&line["message"]["content"], stage)),
                _ => {}
            }
        }
        None
    }

    /// Writes a user message back before the model reads it, if `--replay-user-messages` is given.
    fn repeat_message(&self, name: &Value, content: &Value, stage: &mut Stage) {
        if stage.given().has("--replay-user-messages") {
            stage.line(&json!({
                "type": "user", "message": { "role": "user", "content": content }, "session_id": self.session.id(),
                "parent_tool_use_id": null, "uuid": name, "isReplay": true,
            }));
        }
    }

    fn control(&mut self, line: &Value, stage: &mut Stage) {
        let request = &line["request"];
        let mut response = json!({});
        if request["subtype"] == "initialize" {
            let texts = request["systemPrompt"]
                .as_array()
                .map(|texts| texts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"));
            self.system = texts.or_else(|| request["appendSystemPrompt"].as_str().map(str::to_owned));
            self.schema = request.get("jsonSchema").cloned();
            response =
                json!({ "commands": [], "agents": [], "models": [], "account": account(stage.given()) });
        }
        if request["subtype"] == "mcp_set_servers" {
            self.servers = servers::connect(&request["servers"], stage);
            response = servers::added(&self.servers);
        }
        if request["subtype"] == "mcp_status" {
            response = json!({ "mcpServers": servers::status(&self.servers) });
        }
        stage.line(&json!({ "type": "control_response", "response": {
            "subtype": "success", "request_id": line["request_id"], "response": response,
        }}));
    }

    fn asked(&mut self, content: &Value, stage: &mut Stage) -> Ask {
        let given = stage.given().clone();
        let mut call = self.history.clone();
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("text") => call.user_texts.push(block["text"].as_str().unwrap_or_default().to_owned()),
                Some("image") => call.images += 1,
                _ => {}
            }
        }
        call.model = given.value_of("--model").map(str::to_owned);
        call.effort = given.value_of("--effort").map(str::to_owned);
        call.system = self.system.clone().unwrap_or_default();
        call.tools = tools(&given, self.schema.is_some());
        call.tools.extend(self.servers.tools().iter().map(servers::name));
        self.wire.init(&self.session, &given, &call.tools, &servers::states(&self.servers), stage);
        (self.was_nudged, self.structured, self.failure) = (false, None, None);
        self.last_text.clear();
        self.record.begin();
        self.history = call.clone();
        Ask::new(call).in_conversation(self.session.id())
    }

    /// Returns the wait after the failed attempt number `tries`. `None` if no attempt is left.
    fn wait(&self, tries: u32, stage: &Stage) -> Option<Duration> {
        let most = stage.given().variable("CLAUDE_CODE_MAX_RETRIES").and_then(|most| most.parse().ok());
        let most: u32 = most.unwrap_or(MAX_RETRIES);
        (tries <= most).then(|| FIRST_WAIT * 2_u32.saturating_pow(tries.saturating_sub(1).min(6)))
    }

    fn repeat(
        &mut self,
        tries: u32,
        failure: Failure,
        error: &str,
        least: Duration,
        stage: &mut Stage,
    ) -> AfterFault {
        match self.wait(tries, stage) {
            Some(wait) => {
                let wait = wait.max(least);
                self.wire.api_retry(tries, wait, failure.status, error, stage);
                AfterFault::AskAgain(wait)
            }
            None => self.give_up(failure),
        }
    }

    fn give_up(&mut self, failure: Failure) -> AfterFault {
        self.failure = Some(failure);
        AfterFault::GiveUp
    }

    fn refused_by_status(&mut self, fault: &StatusFault, tries: u32, stage: &mut Stage) -> AfterFault {
        let status = if fault.overloaded { 529 } else { fault.status };
        let message = fault.message.clone().unwrap_or_else(|| "the simulated service refuses".to_owned());
        let failure = |class, sentence: String| Failure::new(Some(status), class, sentence);
        let plain = format!("API Error: {status} {message}");
        let least = Duration::from_secs(fault.retry_after.unwrap_or(0));
        match status {
            400 if message.starts_with("prompt is too long") => {
                self.give_up(failure("invalid_request", message))
            }
            400 => self.give_up(failure("unknown", plain)),
            401 => {
                let failure = failure("authentication_failed", format!("Failed to authenticate. {plain}"));
                self.repeat(tries, failure, "authentication_failed", least, stage)
            }
            403 => self.give_up(failure("authentication_failed", format!("Failed to authenticate. {plain}"))),
            404 => {
                let sentence = "There's an issue with the selected model. It may not exist.".to_owned();
                self.give_up(failure("model_not_found", sentence))
            }
            429 => {
                let is_subscriber = is_subscriber(stage.given());
                // Only subscribers get a report of their window. With an API key, the same status is an ordinary error.
                if let Some(limit) = fault.limit.as_ref().filter(|_| is_subscriber) {
                    let status = match limit.standing {
                        Standing::Allowed => "allowed",
                        Standing::Warning => "allowed_warning",
                        Standing::Rejected => "rejected",
                    };
                    self.wire.rate_limit(status, limit.resets_at, limit.used_percent / 100.0, stage);
                    return self.give_up(failure("rate_limit", "You've hit your session limit".to_owned()));
                }
                let failure = failure("rate_limit", format!("API Error: Request rejected (429) · {message}"));
                // The program does not repeat a call whose limit lasts longer than its patience.
                let is_final = is_subscriber
                    || fault.should_retry == Some(false)
                    || fault.retry_after.is_some_and(|seconds| seconds > PATIENCE_SECONDS);
                match is_final {
                    true => self.give_up(failure),
                    false => self.repeat(tries, failure, "rate_limit", least, stage),
                }
            }
            529 => self.repeat(tries, failure("server_error", plain), "overloaded", least, stage),
            500..=599 => self.repeat(tries, failure("server_error", plain), "server_error", least, stage),
            _ => self.give_up(failure("invalid_request", plain)),
        }
    }

    /// Reacts to a stream that broke off: it is repeated without streaming, unless a block of it was complete.
    fn broken(&mut self, tries: u32, stage: &mut Stage) -> AfterFault {
        // A repetition would show the finished block a second time.
        if self.wire.has_confirmed() {
            let sentence = "API Error: Connection closed mid-response. The response above may be incomplete.";
            return self.give_up(Failure::new(None, "server_error", sentence));
        }
        // From now on the program calls without streaming, and does not report that to the host.
        self.is_streamless = true;
        if tries == 1 {
            return AfterFault::AskAgain(Duration::ZERO);
        }
        let failure = Failure::new(None, "server_error", "API Error: Unable to connect to API (ECONNRESET)");
        self.repeat(tries - 1, failure, "unknown", Duration::ZERO, stage)
    }

    fn bad_end(&mut self, finish: Finish, tries: u32, stage: &mut Stage) -> AfterFault {
        let (class, sentence) = match finish {
            Finish::MaxTokens => {
                ("max_output_tokens", "API Error: Claude's response exceeded the 64000 output token maximum.")
            }
            Finish::ContextExceeded => {
                ("max_output_tokens", "API Error: The model has reached its context window limit.")
            }
            _ => {
                let failure =
                    Failure::new(None, "invalid_request", "API Error: Claude Code is unable to respond");
                return self.give_up(Failure { stop_reason: "refusal", ..failure });
            }
        };
        // The real program asks the model to continue a few times before it reports the limit.
        if tries <= CONTINUATIONS {
            self.wire.nudge("Output token limit hit. Resume directly.", stage);
            return AfterFault::AskAgain(Duration::ZERO);
        }
        self.give_up(Failure::new(None, class, sentence))
    }
}

impl Imitation for Claude {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        let given = stage.given().clone();
        for needed in ["-p", "--verbose", "--output-format=stream-json", "--input-format=stream-json"] {
            if !given.has(needed) {
                stage.error(&format!("error: this imitation needs {needed}\n"));
                return Err(Exit::code(1));
            }
        }
        let (session, history) = Session::begin(&given);
        self.session = session;
        let Some(history) = history else {
            let sentence = format!("No conversation found with session ID: {}", self.session.id());
            stage.error(&format!("{sentence}\n"));
            self.record.never_began(&self.session, &sentence, stage);
            return Err(Exit::code(1));
        };
        self.history = history;
        self.servers = servers::connect_configured(stage).map_err(|sentence| {
            stage.error(&format!("{sentence}\n"));
            Exit::code(1)
        })?;
        let ask = self.wait_to_be_asked(stage).ok_or(Exit::code(0))?;
        // The real program reports a missing login only when a turn begins, as an ordinary result.
        if account(&given)["apiKeySource"].is_null() && account(&given)["tokenSource"] == "none" {
            let failure = Failure::new(None, "authentication_failed", "Not logged in · Please run /login");
            self.failure = Some(failure);
            self.finish(Ending::Failed, stage);
            return Err(Exit::code(1));
        }
        Ok(ask)
    }

    fn objection(&self, call: &ToolCall) -> Option<String> {
        self.session.sandbox().objection(call, &self.servers)
    }

    fn call_server(&mut self, call: &ToolCall) -> Option<ServerCall> {
        let tool = servers::tool(call, &self.servers)?;
        Some(self.servers.call(&tool.server, &tool.name, &tool_input(call)))
    }

    fn runs_alone(&self, call: &ToolCall) -> bool {
        servers::tool(call, &self.servers).is_some_and(|tool| !tool.is_read_only)
    }

    fn told(&self, call: &ToolCall, answer: &Answer) -> String {
        servers::told(call, answer, &self.servers)
    }

    fn answer(&mut self, call: &ToolCall, stage: &mut Stage) -> Result<String, String> {
        let _ = stage;
        match call {
            ToolCall::Function { name, arguments, .. }
                if name == "StructuredOutput" && self.schema.is_some() =>
            {
                self.structured = Some(arguments.clone());
                Ok("Structured output provided successfully".to_owned())
            }
            _ => {
                let name = tool_name(call);
                Err(format!("<tool_use_error>Error: No such tool available: {name}</tool_use_error>"))
            }
        }
    }

    fn input(&mut self, stage: &mut Stage) -> Vec<String> {
        let mut texts = Vec::new();
        for (name, content) in std::mem::take(&mut self.queued) {
            self.repeat_message(&name, &content, stage);
            texts.extend(
                content.as_array().into_iter().flatten().filter_map(|block| block["text"].as_str()).map(
                    // The real program also wraps the input in its own message.
                    |text| format!("The user sent a new message while you were working:\n{text}"),
                ),
            );
        }
        self.history.user_texts.extend(texts.iter().cloned());
        texts
    }

    fn is_at_its_limit(&self) -> bool {
        self.record.is_over_budget()
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        match moment {
            Moment::CallBegins { .. } => self.wire.call_begins(self.is_streamless, stage),
            Moment::Text(piece) => self.wire.text(piece, stage),
            Moment::Thinking(piece) => self.wire.thinking(piece, stage),
            Moment::ToolAsked { id, call } => self.wire.tool(id, &tool_name(call), &tool_input(call), stage),
            Moment::MessageEnds { text, calls, finish, usage, .. } => {
                self.is_streamless = false;
                if !text.is_empty() {
                    (*text).clone_into(&mut self.last_text);
                }
                let budget = stage.given().value_of("--max-budget-usd").and_then(|usd| usd.parse().ok());
                self.record.count(*usage, budget);
                self.wire.message_ends(stop_reason(*finish, !calls.is_empty()), *usage, stage);
            }
            Moment::ToolBegins { .. } => self.is_tool_running = true,
            Moment::ToolEnds { id, call, answer, is_denied } => {
                self.is_tool_running = false;
                // A tool that does not exist is an error of the model, not a denied permission.
                if *is_denied && !self.session.sandbox().is_missing(call, &self.servers) {
                    self.record.deny(id, &tool_name(call), &tool_input(call));
                }
                let told = servers::told(call, answer, &self.servers);
                self.wire.tool_ends(id, &told, answer, stage);
            }
        }
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault {
        match trouble {
            Trouble::Refused => {
                let sentence = "API Error: Unable to connect to API (ConnectionRefused)";
                let failure = Failure::new(None, "server_error", sentence);
                self.repeat(tries, failure, "unknown", Duration::ZERO, stage)
            }
            Trouble::Fault(Fault::ResetBeforeHeaders) => {
                let failure =
                    Failure::new(None, "server_error", "API Error: Unable to connect to API (ECONNRESET)");
                self.repeat(tries, failure, "unknown", Duration::ZERO, stage)
            }
            Trouble::Fault(Fault::Status(fault)) => self.refused_by_status(fault, tries, stage),
            Trouble::Fault(Fault::Html200) => {
                let sentence = "API Error: API returned an empty or malformed response (HTTP 200) — check for a \
                                proxy or gateway intercepting the request";
                self.give_up(Failure::new(None, "unknown", sentence))
            }
            Trouble::Fault(Fault::StreamError { code, .. }) if code.contains("overloaded") => {
                self.give_up(Failure::new(None, "server_error", "API Error: Overloaded"))
            }
            Trouble::Fault(Fault::StreamError { message, .. }) => {
                let sentence = format!("API Error: 500 {message}");
                self.give_up(Failure::new(Some(500), "server_error", sentence))
            }
            Trouble::Fault(_) => self.broken(tries, stage),
            Trouble::BadEnd(finish) => self.bad_end(*finish, tries, stage),
            Trouble::Empty if tries == 1 => {
                self.wire.nudge("Your previous response had no visible output.", stage);
                AfterFault::AskAgain(Duration::ZERO)
            }
            Trouble::Empty => AfterFault::Accept,
        }
    }

    fn heard(&mut self, heard: &Heard, stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Line(line) => {
                let line: Value = serde_json::from_str(line).unwrap_or_default();
                if line["type"] == "user" {
                    self.queued.push_back((line["uuid"].clone(), line["message"]["content"].clone()));
                }
                // A program that hangs also ignores the request to stop. Tests of the kill need this.
                if line["request"]["subtype"] != "interrupt" || stage.ignores_signals() {
                    return Reaction::GoOn;
                }
                self.control(&line, stage);
                Reaction::Interrupt { ends_tools: true }
            }
            // The real program completes the running turn after its input has ended.
            Heard::EndOfInput => Reaction::GoOn,
            Heard::Signal(_) if stage.ignores_signals() => Reaction::GoOn,
            // SIGINT ends the turn like the control request. Other signals kill the program.
            Heard::Signal(2) => Reaction::Interrupt { ends_tools: true },
            Heard::Signal(number) => Reaction::Die(*number),
        }
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        if ending == Ending::Answered
            && self.schema.is_some()
            && self.structured.is_none()
            // One reminder only: a model that ignores it ends the turn without a structured answer.
            && !self.was_nudged
        {
            self.was_nudged = true;
            self.wire.nudge("You must call the StructuredOutput tool to complete this request.", stage);
            return Next::Turn(Box::new(Ask::new(self.history.clone()).in_conversation(self.session.id())));
        }
        let code = self.finish(ending, stage);
        self.history.assistant_texts.push(self.last_text.clone());
        // Store the conversation after every turn, so that a later process can resume it.
        self.session.keep(&self.history, stage.given());
        match self.wait_to_be_asked(stage) {
            Some(ask) => Next::Turn(Box::new(ask)),
            None => Next::Exit(Exit::code(code)),
        }
    }
}

impl Claude {
    /// Writes the end of the turn. Returns the exit code.
    fn finish(&mut self, ending: Ending, stage: &mut Stage) -> i32 {
        if ending == Ending::Interrupted {
            let what = if self.is_tool_running { " for tool use" } else { "" };
            self.wire.interrupted(stage);
            self.wire.nudge(&format!("[Request interrupted by user{what}]"), stage);
            self.record.aborted(&self.session, self.is_tool_running, stage);
            return 1;
        }
        if self.record.is_over_budget() {
            self.record.over_budget(&self.session, stage);
            return 1;
        }
        if let Some(failure) = self.failure.take() {
            self.wire.synthetic(failure.class, &failure.sentence, stage);
            self.record.failed(&self.session, &failure, stage);
            return 1;
        }
        if is_subscriber(stage.given()) {
            self.wire.rate_limit("allowed", 0, 0.0, stage);
        }
        self.record.answered(&self.session, &self.last_text, self.structured.as_ref(), stage);
        0
    }
}

/// The account that `initialize` reports for the credential.
fn account(given: &Given) -> Value {
    if given.variable("ANTHROPIC_API_KEY").is_some() {
        json!({ "tokenSource": "none", "apiKeySource": "ANTHROPIC_API_KEY", "apiProvider": "firstParty" })
    } else if given.variable("CLAUDE_CODE_OAUTH_TOKEN").is_some() {
        json!({ "tokenSource": "CLAUDE_CODE_OAUTH_TOKEN", "apiProvider": "firstParty" })
    } else if has_login(given) {
        json!({ "tokenSource": "claude.ai", "subscriptionType": "Claude Max", "apiProvider": "firstParty" })
    } else {
        json!({ "tokenSource": "none", "apiProvider": "firstParty" })
    }
}

/// Returns true if a subscription pays: an API key takes precedence over it, as in the real program.
fn is_subscriber(given: &Given) -> bool {
    let has_token = given.variable("CLAUDE_CODE_OAUTH_TOKEN").is_some();
    given.variable("ANTHROPIC_API_KEY").is_none() && (has_token || has_login(given))
}

/// Returns true if a file exists where the real program stores its login. Its contents are never read.
fn has_login(given: &Given) -> bool {
    let home = given.variable("HOME").map(std::path::Path::new);
    home.is_some_and(|home| home.join(".claude/.credentials.json").exists())
}

/// The tools that the model is given.
fn tools(given: &Given, has_schema: bool) -> Vec<String> {
    let mut tools: Vec<String> = match given.value_of("--tools") {
        Some(list) => list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        None => ["Bash", "Edit", "Read", "Write"].map(str::to_owned).into(),
    };
    if has_schema {
        tools.push("StructuredOutput".to_owned());
    }
    tools
}

fn stop_reason(finish: Finish, calls: bool) -> &'static str {
    match finish {
        Finish::End if calls => "tool_use",
        Finish::End => "end_turn",
        Finish::MaxTokens => "max_tokens",
        Finish::Refusal | Finish::ContentFilter => "refusal",
        Finish::Pause => "pause_turn",
        Finish::ContextExceeded => "model_context_window_exceeded",
    }
}
