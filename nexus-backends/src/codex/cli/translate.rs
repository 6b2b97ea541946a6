//! Reads the messages of `codex app-server`, and decides which messages to send.
//!
//! The exchange begins with `initialize` and `config/read`, which lists the tool servers of all configurations on the
//! machine. `thread/start` or `thread/resume` disables them. `mcpServerStatus/list` follows: no prompt is sent if the
//! model lacks a tool of the caller or has a tool of another server.
//!
//! Then come `turn/start` and the turn's notifications until `turn/completed`, whose status and typed error decide the
//! outcome. At the end, the program's own record adds the facts that only it has.

mod notifications;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nexus_core::{
    CallId, ErrorKind, FinishReason, Phase, TurnEvent,
    harness::Failure,
    lenient_json::{self, HalfJoiner, Halves},
    turn::Unrecognized,
};
use serde_json::{Value, json};

use super::conversation::KeptSession;
use super::messages::{Messages, Names};
use super::sandbox::SandboxWords;
use super::session_log::{ProcessRecord, RecordedEnd};
use super::setting::Setting;
use super::usage::UsageTotals;
use super::wire::{Line, Problem, RateLimits, RpcError, ThreadOpened, TurnNotification};
use super::{failure, mcp_config, session_log, switches};
use crate::cli::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator};

/// Prefix of an input's id; the number of the input follows.
const INPUT: &str = "nexus-input-";

/// Prepared requests of a turn.
#[derive(Debug)]
pub(crate) struct Script {
    /// `thread/start` or `thread/resume`.
    pub(super) thread_method: &'static str,
    /// Parameters of `thread_method`.
    pub(super) thread: Value,
    /// Parameters of `turn/start`, without the id of the conversation.
    pub(super) turn: Value,
    /// Sandbox that the response to `thread_method` must name.
    pub(super) policy: SandboxWords,
}

/// Translator for one process of `codex app-server`.
#[derive(Debug)]
pub(crate) struct AppServer {
    setting: Setting,
    script: Script,
    next_request: u64,
    asked: BTreeMap<u64, Asked>,
    /// Open request of the checks before the turn.
    looking: Option<Asked>,
    phase: Phase,
    /// Id of the turn's own conversation.
    thread: Option<String>,
    /// Ids of the turns of this process; the last one is running.
    turns: Vec<String>,
    /// Calls that started the sub-agents, by the id of the sub-agent's conversation.
    agents: HashMap<String, CallId>,
    names: Names,
    messages: HashMap<String, Messages>,
    /// Call ids of each item. An item has several if the vendor's id occurs more than once.
    calls: HashMap<String, Vec<CallId>>,
    /// Calls that have not ended.
    running: BTreeSet<CallId>,
    totals: UsageTotals,
    limits: Option<RateLimits>,
    retries: u32,
    /// True while the program waits before it retries a model call.
    is_retrying: bool,
    problem: Option<Problem>,
    has_answer: bool,
    is_over: bool,
    is_stopping: bool,
    warned: BTreeSet<String>,
    /// True once the program has reported its settings.
    is_checked: bool,
    halves: HalfJoiner,
    /// Split characters at the ends of the current line.
    line_halves: Halves,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Initialize,
    Configuration,
    Thread,
    Tools,
    Turn,
    Interrupt,
    /// The input with this number.
    Input(u64),
}

impl Asked {
    /// Returns the request that a response belongs to, judged by the fields of the response. This also works for a
    /// recording whose client sent other requests as well.
    fn by_answer(result: &Value) -> Option<Self> {
        let answers = [("thread", Self::Thread), ("turn", Self::Turn), ("userAgent", Self::Initialize)];
        answers.into_iter().find(|(key, _)| result.get(key).is_some()).map(|(_, asked)| asked)
    }

    /// Returns the text id of a request of the checks; other requests have numbers.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Configuration => Some("configuration"),
            Self::Tools => Some("servers"),
            _ => None,
        }
    }

    /// Returns the request with this text id.
    fn by_name(name: &str) -> Option<Self> {
        [Self::Configuration, Self::Tools].into_iter().find(|asked| asked.name() == Some(name))
    }
}

impl AppServer {
    /// Creates a translator for a process that will run `script`.
    pub(super) fn new(setting: Setting, script: Script) -> Self {
        Self {
            setting,
            script,
            next_request: 0,
            asked: BTreeMap::new(),
            looking: None,
            phase: Phase::Start,
            thread: None,
            turns: Vec::new(),
            agents: HashMap::new(),
            names: Names::default(),
            messages: HashMap::new(),
            calls: HashMap::new(),
            running: BTreeSet::new(),
            totals: UsageTotals::default(),
            limits: None,
            retries: 0,
            is_retrying: false,
            problem: None,
            has_answer: false,
            is_over: false,
            is_stopping: false,
            warned: BTreeSet::new(),
            is_checked: false,
            halves: HalfJoiner::default(),
            line_halves: Halves::default(),
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: &Value, step: &mut Step) {
        self.next_request += 1;
        self.asked.insert(self.next_request, asked);
        write(step, &json!({ "id": self.next_request, "method": method, "params": params }));
    }

    /// Sends a request of the checks before the turn.
    fn look(&mut self, asked: Asked, method: &str, params: &Value, step: &mut Step) {
        self.looking = Some(asked);
        write(step, &json!({ "id": asked.name(), "method": method, "params": params }));
    }

    fn ask_turn(&mut self, mut turn: Value, step: &mut Step) {
        if let Some(turn) = turn.as_object_mut() {
            turn.insert("threadId".into(), json!(self.thread));
        }
        self.has_answer = false;
        self.is_over = false;
        self.phase = Phase::FirstByte;
        self.ask(Asked::Turn, "turn/start", &turn, step);
    }

    fn answer(&mut self, asked: Asked, result: Result<Value, RpcError>, step: &mut Step) {
        match (asked, result) {
            (Asked::Initialize, Ok(_)) => {
                write(step, &json!({ "method": "initialized" }));
                let params = json!({ "cwd": self.script.thread.get("cwd"), "includeLayers": true });
                self.look(Asked::Configuration, "config/read", &params, step);
            }
            (Asked::Configuration, read) => {
                let overruled = self
                    .setting
                    .without_tools
                    .as_ref()
                    .and_then(|asked| switches::overruled(asked, read.as_ref()));
                if let Some(failure) = overruled {
                    return step.failed_and_stops(failure);
                }
                self.is_checked = true;
                let (method, mut params) = (self.script.thread_method, self.script.thread.take());
                let off = mcp_config::switched_off(self.setting.tools.as_ref(), read);
                if let (Some(off), Some(params)) = (off, params.as_object_mut()) {
                    params.insert("config".into(), off);
                }
                self.ask(Asked::Thread, method, &params, step);
            }
            (Asked::Thread, Ok(result)) if result.get("thread").is_some() => self.thread_opened(result, step),
            // Response to an additional request of a recorded client.
            (Asked::Thread, Ok(_)) => {}
            (Asked::Turn, Ok(result)) => {
                if let Ok(notification) = serde_json::from_value::<TurnNotification>(result)
                    && !self.turns.contains(&notification.turn.id)
                {
                    self.turns.push(notification.turn.id);
                }
            }
            (Asked::Tools, listed) => match mcp_config::unready(self.setting.tools.as_ref(), listed) {
                Some(failure) => step.failed_and_stops(failure),
                None => self.begin_turn(step),
            },
            (Asked::Interrupt, _) | (Asked::Input(_), Ok(_)) => {}
            // The program rejects an input without a running turn ("no active turn to steer"), so return the input.
            (Asked::Input(number), Err(_)) => step.returned.push(number),
            (Asked::Thread, Err(error)) => {
                let tools = self.setting.tools.as_ref();
                let unavailable = tools.and_then(|own| mcp_config::not_connected(own, &error));
                let other = || refused(asked, self.script.thread_method, &error);
                step.failed_and_stops(unavailable.unwrap_or_else(other));
            }
            (asked, Err(error)) => step.failed(refused(asked, self.script.thread_method, &error)),
        }
    }

    fn thread_opened(&mut self, result: Value, step: &mut Step) {
        if self.setting.without_tools.is_some() && !self.is_checked {
            let reason = "codex does not report its configuration; nothing was sent";
            return step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
        }
        let opened: ThreadOpened = match serde_json::from_value(result) {
            Ok(opened) => opened,
            Err(error) => {
                let message = "the answer to the start of the conversation cannot be read";
                return step.failed(Failure::new(ErrorKind::Protocol, message).with_source(error));
            }
        };
        let sandbox = opened.sandbox.map(|sandbox| sandbox.kind).unwrap_or_default();
        let profile = opened.active_permission_profile.map(|profile| profile.id);
        let SandboxWords { sandbox: asked, profile: asked_profile } = self.script.policy;
        if sandbox != asked || asked_profile.is_some_and(|asked| profile.as_deref() != Some(asked)) {
            let message = format!(
                "the policy is {sandbox:?} of profile {profile:?}, but {asked:?} of profile \
                 {asked_profile:?} was requested; nothing was sent"
            );
            return step.failed_and_stops(Failure::new(ErrorKind::Unsupported, message));
        }
        step.model = opened.model.map(Into::into);
        step.effort = self.setting.effort.effort;
        step.events.extend(self.setting.effort.warning.take().map(TurnEvent::warning));
        step.version = opened.thread.cli_version;
        let session = KeptSession::new(&opened.thread.id, opened.thread.path.as_deref());
        step.resume = session.map(|session| session.into_handle(self.setting.backend.clone()));
        let thread = self.thread.insert(opened.thread.id).clone();
        step.conversation = Some(thread.clone());
        let params = json!({ "threadId": thread, "detail": "toolsAndAuthOnly" });
        self.look(Asked::Tools, "mcpServerStatus/list", &params, step);
    }

    fn begin_turn(&mut self, step: &mut Step) {
        let turn = self.script.turn.take();
        self.ask_turn(turn, step);
    }

    /// Declines an approval that the program requests, because no host can give it.
    fn asked(&mut self, id: &Value, method: &str, step: &mut Step) {
        let answer = match method {
            "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
                json!({ "id": id, "result": { "decision": "decline" } })
            }
            "mcpServer/elicitation/request" => json!({ "id": id, "result": { "action": "decline" } }),
            _ => json!({ "id": id, "error": { "code": -32601, "message": "no approver is present to answer \
                this" } }),
        };
        write(step, &answer);
        step.event(TurnEvent::warning(format!(
            "the program sent the request {method:?}, which Nexus cannot \
            answer"
        )));
    }

    /// Reads the program's own record and adds the facts that were not reported live.
    fn read_record(&mut self, home: &std::path::Path, step: &mut Step) {
        let Some(thread) = self.thread.clone() else { return };
        let sessions = super::home::sessions(home);
        if let Some(path) = session_log::find(&sessions, &thread) {
            let turns = self.turns.iter().cloned().collect();
            let mut record = ProcessRecord::read(&path, &turns);
            let end = record.end.take();
            let events = record.unseen_calls(&self.calls, &self.setting);
            step.events.extend(events);
            if !self.is_over {
                self.judge(end, step);
            }
            if let Some(store) = &self.setting.store
                && let Err(error) = store.keep(&sessions, &path)
            {
                step.event(TurnEvent::warning(format!("the conversation could not be stored: {error}")));
            }
        } else if !self.is_over {
            self.judge(None, step);
        }
    }

    /// Sets the outcome from the record, for a process that ended before it reported one.
    fn judge(&mut self, end: Option<RecordedEnd>, step: &mut Step) {
        match end {
            Some(RecordedEnd::Failed(problem)) => step.failed(failure::of(&problem, self.limits.as_ref())),
            Some(RecordedEnd::Complete { answer: Some(answer) }) if !answer.trim().is_empty() => {
                if !self.has_answer {
                    let mut messages = Messages::default();
                    let ended = messages.end(&mut self.names, None, "recorded", answer);
                    step.events.push(ended);
                }
                step.answered(FinishReason::Stop);
            }
            Some(RecordedEnd::Complete { .. }) => step.failed(no_answer()),
            None => {
                if let Some(problem) = &self.problem {
                    step.failed(failure::of(problem, self.limits.as_ref()));
                }
            }
        }
    }
}

impl Translator for AppServer {
    fn open(&mut self, step: &mut Step) {
        // The program sends this name as originator and as part of the user agent of every request.
        let client = json!({ "name": "nexus", "title": "Nexus", "version": env!("CARGO_PKG_VERSION") });
        self.ask(Asked::Initialize, "initialize", &json!({ "clientInfo": client }), step);
    }

    fn read_line(&mut self, output: OutputLine<'_>, step: &mut Step) -> bool {
        let Ok(message) = output.read::<Line>() else { return false };
        self.line_halves = output.halves();
        match message {
            Line { id: Some(id), method: Some(method), .. } => self.asked(&id, &method, step),
            Line { method: Some(method), params, .. } => self.notification(&method, params, step),
            Line { id: Some(id), result, error, .. } => {
                let looked = id.as_str().and_then(Asked::by_name);
                let asked = match looked.filter(|looked| self.looking == Some(*looked)) {
                    Some(_) => self.looking.take(),
                    None => id.as_u64().and_then(|id| self.asked.remove(&id)),
                };
                let result = match error {
                    Some(error) => Err(error),
                    None => Ok(result.unwrap_or_default()),
                };
                if let Some(asked) = result.as_ref().ok().and_then(Asked::by_answer).or(asked) {
                    self.answer(asked, result, step);
                }
            }
            Line { result, .. } => {
                let raw = json!({ "result": result });
                step.event(Unrecognized::new(None, raw));
            }
        }
        true
    }

    fn unreadable(&mut self, beginning: &[u8], step: &mut Step) {
        let has = |words: &[u8]| memchr::memmem::find(beginning, words).is_some();
        let id = lenient_json::request_id(beginning);
        if has(b"\"turn/completed\"") {
            step.failed(Failure::new(ErrorKind::Protocol, "the line that ends the turn cannot be read"));
        } else if let Some(id) = id.as_ref().filter(|_| has(b"\"method\"")) {
            let error = json!({ "code": -32700, "message": "the request is not JSON" });
            write(step, &json!({ "id": id, "error": error }));
        } else if id
            .and_then(|id| self.asked.remove(&id.as_u64()?))
            .is_some_and(|asked| !matches!(asked, Asked::Interrupt | Asked::Input(_)))
        {
            let reason = "an answer of the program cannot be read";
            step.failed_and_stops(Failure::new(ErrorKind::Protocol, reason));
        }
    }

    fn interrupt(&mut self, step: &mut Step) -> StopRequest {
        self.is_stopping = true;
        match (self.thread.clone(), self.turns.last().cloned()) {
            (Some(thread), Some(turn)) if !self.is_over => {
                let params = json!({ "threadId": thread, "turnId": turn });
                self.ask(Asked::Interrupt, "turn/interrupt", &params, step);
            }
            // No turn is running, so closing the input ends the program.
            _ => step.close_stdin = true,
        }
        StopRequest::Written
    }

    fn takes_input(&self) -> bool {
        !self.is_over && !self.is_stopping && !self.running.is_empty() && !self.turns.is_empty()
    }

    // Source: the schema of codex 0.169.0, and observed with it. The program adds the message after the tool's result,
    // and reports it as a separate item. A message that arrives during the model's text ends that response, and the
    // program calls the model again.
    fn input(&mut self, number: u64, text: &str, step: &mut Step) {
        let params = json!({
            "threadId": self.thread, "expectedTurnId": self.turns.last(),
            "clientUserMessageId": format!("{INPUT}{number}"),
            "input": [{ "type": "text", "text": text }],
        });
        self.ask(Asked::Input(number), "turn/steer", &params, step);
    }

    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair {
        let input = json!([{ "type": "text", "text": instruction }]);
        self.ask_turn(json!({ "input": input }), step);
        Repair::SameProcess
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn look(&mut self, stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        if self.is_retrying {
            step.retry_delay = failure::retry_delay(&stderr_tail());
        }
    }

    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step) {
        if let Some(home) = end.home {
            self.read_record(home, step);
        }
        let is_open = step.outcome.is_none() && self.thread.is_none() && !end.was_stopped;
        if let (true, Some(exit)) = (is_open, end.exit) {
            // The last line of standard error has the reason, such as a configuration that this version does not
            // accept.
            let words = end.stderr_tail.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            let message = format!("it ended with {exit} before the conversation began: {}", words.trim());
            step.failed(Failure::new(ErrorKind::Crashed, message));
        }
    }
}

fn no_answer() -> Failure {
    Failure::new(ErrorKind::Incomplete, "the turn was completed without an answer")
}

/// Returns the failure for a rejected request.
fn refused(asked: Asked, thread_method: &str, error: &RpcError) -> Failure {
    let reason = error.data.get("input_error_code").and_then(Value::as_str);
    let kind = match asked {
        // Source: recordings resume-missing, resume-corrupt.
        Asked::Thread if thread_method == "thread/resume" => ErrorKind::ConversationLost,
        // Source: recording prompt-too-long.
        Asked::Turn if reason == Some("input_too_large") => ErrorKind::InvalidRequest,
        Asked::Thread | Asked::Turn => ErrorKind::InvalidRequest,
        Asked::Initialize | Asked::Configuration | Asked::Tools | Asked::Interrupt | Asked::Input(_) => {
            ErrorKind::Protocol
        }
    };
    Failure::new(kind, error.message.clone())
}

fn write(step: &mut Step, message: &Value) {
    let mut line = message.to_string();
    line.push('\n');
    step.write(line);
}
