//! Translates Grok's lines into events, and its session log into an outcome.
//!
//! A model response ends with a `usage` line, which also ends the message. The output does not distinguish an
//! interrupted response from its repetition. So during the turn, retries are read from the session's `updates.jsonl`,
//! and at the end the messages are compared with `chat_history.jsonl`. Without a session folder, as in a recording,
//! only the output decides.
//!
//! If the caller has tools, the model's output is accepted only once the CLI has all of them: it has listed them, or
//! has fetched the list from our server. A separate task of the CLI writes its list, often after the model's first
//! text; at the end of the turn the list must be present. A call of a caller's tool is reported under the caller's
//! name, in any form that the model used.
//!
//! Source: observed with grok 1.0.41.

use std::{
    mem,
    path::Path,
    time::{Duration, SystemTime},
};

use nexus_core::{
    BackendId, CallId, Cost, CostSource, Effects, ErrorKind, MessageId, Phase, ProcessExit, ResumeHandle,
    ToolAccess, ToolCallStatus, ToolContent, TurnEvent, Usage, Usd,
    harness::{Failure, ModelCall},
    lenient_json::{HalfJoiner, Halves},
    turn::{
        ConversationCompacted, MessageEnded, MessageVoided, Retrying, TextDelta, ThinkingDelta,
        ToolCallArguments, ToolCallFinished, ToolCallStarted, ToolOrigin, Unrecognized, VoidCause,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::conversation::StoredConversation;
use super::session_log::{LoggedAnswer, RetryWatch, TurnEnd};
use super::tools::CallersCall;
use super::{failure, mcp_config, outcome, session_log, tool_result, tools, wire};
use crate::cli::caller_tools::CallerTools;
use crate::cli::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator, TurnOutcome};

/// Time after the record of a retry at which the next attempt begins. The CLI waits longer before it retries, and its
/// earlier output is read sooner.
const RETRY_GAP: Duration = Duration::from_millis(800);

/// Warning about an image that a tool returned.
const UNSEEN_PICTURES: &str = "the vendor's program passes a tool's pictures to its model as base64 text";

/// Translates the output of one process.
#[derive(Debug)]
pub(crate) struct GrokTranslator {
    backend: BackendId,
    access: ToolAccess,
    session: Option<StoredConversation>,
    watch: Option<RetryWatch>,
    retry: Option<session_log::LoggedRetry>,
    messages: MessageNames,
    open: Option<Open>,
    closed: Vec<Closed>,
    calls: Vec<Call>,
    model_calls: u32,
    has_usage: bool,
    reached_max_turns: bool,
    last: Option<Last>,
    phase: Phase,
    callers: Option<CallerTools>,
    /// Names of the caller's tools that the CLI has not listed yet.
    missing: Vec<String>,
    /// True if the CLI has listed its model's tools, and the list is as expected.
    is_listed: bool,
    /// True after the warning that the model does not see images of tools.
    has_warned_of_pictures: bool,
    halves: HalfJoiner,
    /// Split characters at the ends of the current line.
    line_halves: Halves,
}

/// Name of the answer's text among the texts with split characters.
const TEXT: &str = "text";

/// Generator of message ids that differ between the processes of a turn.
#[derive(Debug)]
struct MessageNames {
    process: u64,
    count: u32,
}

impl MessageNames {
    fn next(&mut self) -> MessageId {
        self.count += 1;
        MessageId::new(format!("{}.{}", self.process, self.count))
    }
}

/// Message that is being streamed.
#[derive(Debug)]
struct Open {
    id: MessageId,
    text: String,
    /// Time of the first piece. An earlier retry does not belong to this message.
    began: SystemTime,
}

/// Complete message, as the output showed it.
#[derive(Debug)]
struct Closed {
    id: MessageId,
    text: String,
}

/// Tool call. The vendor's id may occur more than once.
#[derive(Debug)]
struct Call {
    vendor_id: String,
    id: CallId,
    is_running: bool,
    /// The call as the caller's server receives it; `None` for a tool of the harness.
    callers: Option<CallersCall>,
    /// Call that is reported only once it is known not to be denied.
    held: Option<Held>,
}

/// Call whose end shows if anything may have changed.
#[derive(Debug)]
struct Held {
    name: String,
    arguments: Value,
}

impl Held {
    /// Reports the start of the call and its arguments.
    fn tell(self, call: &CallId, effects: Effects, step: &mut Step) {
        step.event(ToolCallStarted::new(call.clone(), self.name, ToolOrigin::Harness, effects));
        step.event(ToolCallArguments::new(call.clone(), self.arguments));
    }
}

/// Last line of the turn.
#[derive(Debug)]
enum Last {
    End(wire::End),
    Error(wire::Error),
}

impl GrokTranslator {
    /// Creates a translator for a turn at this level. `process` distinguishes the processes of a turn.
    pub(super) fn new(backend: BackendId, access: ToolAccess, process: u64) -> Self {
        Self {
            backend,
            access,
            session: None,
            watch: None,
            retry: None,
            messages: MessageNames { process, count: 0 },
            open: None,
            closed: Vec::new(),
            calls: Vec::new(),
            model_calls: 0,
            has_usage: false,
            reached_max_turns: false,
            last: None,
            phase: Phase::Start,
            callers: None,
            missing: Vec::new(),
            is_listed: false,
            has_warned_of_pictures: false,
            halves: HalfJoiner::default(),
            line_halves: Halves::default(),
        }
    }

    /// Sets the session whose record decides the outcome. `watch` follows its retries.
    #[must_use]
    pub(super) fn with_session(mut self, session: StoredConversation, watch: RetryWatch) -> Self {
        self.session = Some(session);
        self.watch = Some(watch);
        self
    }

    /// Sets the caller's tools, which the CLI must then list.
    #[must_use]
    pub(super) fn with_callers(mut self, callers: Option<CallerTools>) -> Self {
        let names = callers.iter().flat_map(CallerTools::definitions).map(|tool| tool.name.clone());
        self.missing = names.collect();
        self.callers = callers;
        self
    }

    /// Reads a line with a known name; `None` if the line does not have the expected form.
    fn known_line(&mut self, kind: &str, line: &[u8], step: &mut Step) -> Option<()> {
        if matches!(kind, "text" | "thought" | "tool_call" | "usage")
            && let Some(failure) = self.unready()
        {
            // Suppress text of a model without the caller's tools, but report its calls, because they may have effects.
            if kind == "tool_call" {
                self.tool_call(read(line)?, step);
            }
            step.failed_and_stops(failure);
            return Some(());
        }
        match kind {
            "text" => self.text(read::<wire::Delta>(line)?.data, step),
            "thought" => self.thought(read::<wire::Delta>(line)?.data, step),
            "available_commands" => self.available(&read::<wire::AvailableCommands>(line)?, step),
            "tool_call" => self.tool_call(read(line)?, step),
            "tool_call_update" => self.tool_call_update(&read(line)?, step),
            "usage" => self.response_end(&read(line)?, step),
            "auto_compact_completed" => step.event(ConversationCompacted::new()),
            "max_turns_reached" => self.reached_max_turns = true,
            "end" => {
                let end: wire::End = read(line)?;
                self.spent(&end.spent, step);
                self.close(None, step);
                self.last = Some(Last::End(end));
            }
            "error" => {
                let error: wire::Error = read(line)?;
                self.spent(&error.spent, step);
                self.last = Some(Last::Error(error));
            }
            _ => return None,
        }
        Some(())
    }

    fn available(&mut self, available: &wire::AvailableCommands, step: &mut Step) {
        if self.phase == Phase::Start {
            self.phase = Phase::FirstByte;
        }
        let Some(tools) = &available.tools else {
            step.event(Unrecognized::new(Some("available_commands without tools".to_owned()), Value::Null));
            return;
        };
        if let Some(callers) = &self.callers {
            let is_listed = |name: &str| tools.iter().any(|tool| mcp_config::own_name(tool) == Some(name));
            self.missing = callers.missing(is_listed).into_iter().map(str::to_owned).collect();
        }
        match tools::first_excess(self.access, self.callers.as_ref(), tools) {
            None => self.is_listed = true,
            Some(excess) => {
                let access = self.access.as_str();
                let reason = format!("it offers the model the tool {excess}, which {access} does not allow");
                step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
            }
        }
    }

    /// Returns the failure of a turn whose level is a list of tools, if the CLI has not reported its model's tools.
    fn unseen(&self) -> Option<Failure> {
        (!self.is_listed && tools::is_list(self.access)).then(|| {
            let level = self.access.as_str();
            let reason = format!(
                "the vendor's program does not report its model's tools, so {level} cannot be verified"
            );
            Failure::new(ErrorKind::Unsupported, reason)
        })
    }

    /// Returns the failure if the CLI has neither listed the caller's tools nor fetched their list from our server.
    fn unready(&self) -> Option<Failure> {
        let were_fetched = self.callers.as_ref().is_some_and(CallerTools::were_listed);
        self.unlisted().filter(|_| !were_fetched)
    }

    /// Returns the failure if the CLI did not list all tools of the caller.
    fn unlisted(&self) -> Option<Failure> {
        if self.missing.is_empty() {
            return None;
        }
        let missing = self.missing.join(", ");
        let reason = format!("the vendor's program did not connect the caller's tools {missing}");
        Some(Failure::new(ErrorKind::ToolsUnavailable, reason))
    }

    fn text(&mut self, text: String, step: &mut Step) {
        let text = self.halves.delta(TEXT, text.into(), mem::take(&mut self.line_halves)).into_owned();
        // A response without text still needs a message that carries its usage.
        let open = self.message(step);
        open.text.push_str(&text);
        let id = open.id.clone();
        step.event(TextDelta::new(id, text));
    }

    fn thought(&mut self, text: String, step: &mut Step) {
        let text = self.halves.delta("thought", text.into(), mem::take(&mut self.line_halves)).into_owned();
        let id = self.message(step).id.clone();
        step.event(ThinkingDelta::new(id, text));
    }

    /// Returns the message to which the next piece belongs.
    fn message(&mut self, step: &mut Step) -> &mut Open {
        self.phase = Phase::Model;
        self.look_for_retry(step);
        if self.is_next_attempt()
            && let Some(open) = self.open.take()
        {
            self.halves = HalfJoiner::default();
            step.event(MessageVoided::new(open.id, VoidCause::Retry));
        }
        let names = &mut self.messages;
        let began = SystemTime::now();
        self.open.get_or_insert_with(|| Open { id: names.next(), text: String::new(), began })
    }

    /// Reports a retry that was recorded since the last poll.
    fn look_for_retry(&mut self, step: &mut Step) {
        if let Some(retry) = self.watch.as_mut().and_then(RetryWatch::look) {
            let retrying = Retrying::new(retry.attempt.saturating_add(1), &*retry.reason);
            step.event(retrying.with_kind(Some(failure::kind_of_retry(&retry.reason))));
            self.retry = Some(retry);
        }
    }

    /// Returns true if the next piece belongs to a later attempt than the open message.
    fn is_next_attempt(&mut self) -> bool {
        let Some((retry, open)) = self.retry.as_ref().zip(self.open.as_ref()) else { return false };
        // The session log may show the retry before the last piece of the earlier attempt is read here, so add the gap.
        let next_begins = retry.at + RETRY_GAP;
        let is_next = open.began < next_begins && next_begins < SystemTime::now();
        if is_next {
            self.retry = None;
        }
        is_next
    }

    fn response_end(&mut self, end: &wire::ResponseEnd, step: &mut Step) {
        self.model_calls = self.model_calls.saturating_add(1);
        step.model_calls = Some(self.model_calls);
        let usage = end.usage.map(into_usage);
        self.has_usage |= usage.is_some();
        if usage.is_none() {
            step.model_calls_ended.push(ModelCall::new());
        }
        self.message(step);
        self.close(usage, step);
        self.phase = self.phase_between();
    }

    fn close(&mut self, usage: Option<Usage>, step: &mut Step) {
        let half = self.halves.finish(TEXT);
        let Some(mut open) = self.open.take() else { return };
        self.retry = None;
        if let Some(half) = half {
            open.text.push(half);
            step.event(TextDelta::new(open.id.clone(), half));
        }
        self.halves = HalfJoiner::default();
        step.event(MessageEnded::new(open.id.clone(), open.text.clone()).with_usage(usage));
        self.closed.push(Closed { id: open.id, text: open.text });
    }

    fn tool_call(&mut self, call: wire::ToolCall, step: &mut Step) {
        let is_hosted = call.raw_input.get("backend").and_then(Value::as_bool).unwrap_or(false);
        let variant = call.raw_input.get("variant").and_then(Value::as_str);
        let name = match variant {
            Some("WebSearch") if is_hosted => "web_search".to_owned(),
            Some("XSearch") if is_hosted => "x_search".to_owned(),
            _ => call.tool_name.or(call.title).unwrap_or_default(),
        };
        let same = self.calls.iter().filter(|known| known.vendor_id == call.tool_call_id).count();
        let id = match same {
            0 => call.tool_call_id.clone(),
            more => format!("{}#{}", call.tool_call_id, more + 1),
        };
        let id = CallId::new(id);
        let callers = self.callers.as_ref().zip(tools::callers_call(&name, &call.raw_input));
        let (name, origin, effects) = match &callers {
            Some((tools, callers)) => {
                (callers.name.clone(), ToolOrigin::Caller, tools.effects(&callers.name))
            }
            None if is_hosted => (name, ToolOrigin::Hosted, Effects::Read),
            None => {
                let effects = tools::effects(self.access, &name, call.kind.as_deref());
                (name, ToolOrigin::Harness, effects)
            }
        };
        let callers = callers.map(|(_, callers)| callers);
        // Calls of the caller's tools, and of the search for them, may precede the list. Calls of the harness's other
        // tools may not.
        let is_own = origin == ToolOrigin::Harness && effects != Effects::None;
        if let Some(failure) = self.unseen().filter(|_| is_own) {
            step.failed_and_stops(failure);
        }
        let arguments = callers.as_ref().map_or(call.raw_input, |callers| callers.arguments.clone());
        // No such tool should exist. The CLI rejects the call, unless it has more tools than its configuration allows.
        let is_held = (self.access == ToolAccess::ScopedOnly || tools::is_of_a_server(&name))
            && origin == ToolOrigin::Harness
            && effects == Effects::Unknown;
        let held = if is_held {
            Some(Held { name, arguments })
        } else {
            step.event(ToolCallStarted::new(id.clone(), name, origin, effects));
            step.event(ToolCallArguments::new(id.clone(), arguments));
            None
        };
        self.calls.push(Call { vendor_id: call.tool_call_id, id, is_running: true, callers, held });
        self.phase = Phase::Tool;
    }

    fn tool_call_update(&mut self, update: &wire::ToolCallUpdate, step: &mut Step) {
        let succeeded = match update.status.as_deref() {
            Some("completed") => true,
            Some("failed") => false,
            _ => return,
        };
        let running =
            self.calls.iter_mut().find(|call| call.is_running && call.vendor_id == update.tool_call_id);
        let Some(call) = running else {
            if !self.calls.iter().any(|call| call.vendor_id == update.tool_call_id) {
                // The call happened, but the line that announced it was not understood.
                let id = Value::String(update.tool_call_id.clone());
                step.event(Unrecognized::new(Some("the answer to an unknown call".to_owned()), id));
            }
            return;
        };
        call.is_running = false;
        if let Some(held) = call.held.take() {
            let was_refused = !succeeded && !tool_result::is_of_a_server(update);
            held.tell(&call.id, if was_refused { Effects::None } else { Effects::Unknown }, step);
        }
        let (mut status, mut output) = tool_result::of_call(update, succeeded);
        if let Some((callers, asked)) = self.callers.as_ref().zip(call.callers.as_ref()) {
            let is_out_of_scope = !callers.definitions().iter().any(|tool| tool.name == asked.name);
            if !succeeded && (is_out_of_scope || callers.was_denied(&asked.name, &asked.arguments)) {
                status = ToolCallStatus::Denied;
            }
            output = tool_result::with_pictures(output);
            let has_pictures = output.iter().any(|part| matches!(part, ToolContent::Image { .. }));
            if has_pictures && !std::mem::replace(&mut self.has_warned_of_pictures, true) {
                step.event(TurnEvent::warning(UNSEEN_PICTURES));
            }
        }
        step.event(ToolCallFinished::new(call.id.clone(), status, output));
        self.phase = self.phase_between();
    }

    /// Returns the phase while the model is silent.
    fn phase_between(&self) -> Phase {
        if self.calls.iter().any(|call| call.is_running) { Phase::Tool } else { Phase::FirstByte }
    }

    fn spent(&mut self, spent: &wire::Spent, step: &mut Step) {
        // The total is the sum of the responses' usage, so use it only if the responses reported none.
        if !self.has_usage {
            step.usage = spent.usage.map(into_usage).filter(|usage| usage.total_tokens().is_some());
        }
        step.model = spent.model_usage.keys().next().map(|model| model.as_str().into());
        let usd = spent.total_cost_usd_ticks.map(|ticks| ticks as f64 / 1e10).or(spent.total_cost_usd);
        step.cost = usd.map(|usd| Cost { usd: Usd(usd), source: CostSource::Reported });
    }

    /// Retracts the messages that differ from the session's record, and reports those of the record.
    fn correct(&mut self, answers: &[LoggedAnswer], cause: VoidCause, step: &mut Step) {
        let is_same = |(shown, kept): (&Closed, &LoggedAnswer)| shown.text.trim() == kept.text.trim();
        let first = if answers.len() == self.closed.len() {
            match self.closed.iter().zip(answers).position(|pair| !is_same(pair)) {
                Some(first) => first,
                None => return,
            }
        } else {
            // The numbers of messages differ, so they cannot be matched. Compare only the last message, which is the
            // answer.
            match (self.closed.last(), answers.last()) {
                (Some(shown), Some(kept)) if !is_same((shown, kept)) => self.closed.len() - 1,
                (None, Some(_)) => 0,
                _ => return,
            }
        };
        let from_end = self.closed.len() - first;
        for wrong in self.closed.drain(first..) {
            step.event(MessageVoided::new(wrong.id, cause));
        }
        let right = answers.get(answers.len().saturating_sub(from_end.max(1))..).unwrap_or_default();
        for answer in right {
            let id = self.messages.next();
            if !answer.thinking.is_empty() {
                step.event(ThinkingDelta::new(id.clone(), answer.thinking.clone()));
            }
            if !answer.text.is_empty() {
                step.event(TextDelta::new(id.clone(), answer.text.clone()));
            }
            step.event(MessageEnded::new(id.clone(), answer.text.clone()));
            self.closed.push(Closed { id, text: answer.text.clone() });
        }
    }

    fn verdict(&self, record: Option<&TurnEnd>) -> Option<TurnOutcome> {
        Some(match self.last.as_ref()? {
            Last::Error(error) => TurnOutcome::Failed(failure::from_message(&error.message, record)),
            // The hook delayed the prompt for the caller's tools, and then stopped it.
            Last::End(_) if !self.missing.is_empty() => TurnOutcome::Failed(self.unlisted()?),
            Last::End(_) if let Some(failure) = self.unseen() => TurnOutcome::Failed(failure),
            Last::End(end) => {
                let answer = self.closed.last().map(|message| message.text.as_str());
                outcome::of_end(end, answer, self.reached_max_turns)
            }
        })
    }

    /// Returns the outcome if the sandbox could not be created, so that the program never ran.
    fn unsandboxed(&self, stderr_tail: &str) -> Option<TurnOutcome> {
        let reason = stderr_tail.lines().find(|line| line.starts_with("bwrap: "))?;
        let is_ours = self.phase == Phase::Start && self.access == ToolAccess::WorkspaceWrite;
        is_ours.then(|| TurnOutcome::Failed(Failure::new(ErrorKind::Unsupported, reason)))
    }
}

impl Translator for GrokTranslator {
    fn open(&mut self, step: &mut Step) {
        step.conversation = self.session.as_ref().map(|session| session.id().to_owned());
    }

    fn look(&mut self, _stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        self.look_for_retry(step);
    }

    fn tool_search(&self) -> Option<&'static str> {
        Some(tools::SEARCH)
    }

    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool {
        self.line_halves = line.halves();
        let kind = read::<wire::Head>(line.bytes).map(|head| head.kind);
        kind.and_then(|kind| self.known_line(&kind, line.bytes, step)).is_some()
    }

    fn unrecognized(&self, line: &[u8]) -> Unrecognized {
        let kind = read::<wire::Head>(line).map(|head| head.kind);
        let is_harmless = kind.as_deref().is_some_and(wire::is_harmless);
        let unknown = Unrecognized::of_line(kind, line);
        if is_harmless { unknown.harmless() } else { unknown }
    }

    fn interrupt(&mut self, _step: &mut Step) -> StopRequest {
        // The program reports nothing more after a request to stop. Its tools end with the process tree.
        StopRequest::Signals
    }

    fn repair(&mut self, _instruction: &str, _step: &mut Step) -> Repair {
        Repair::NewProcess
    }

    fn phase(&self) -> Phase {
        self.phase
    }

    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step) {
        for call in &mut self.calls {
            if let Some(held) = call.held.take() {
                // No result arrived, so the call may have had an effect.
                held.tell(&call.id, Effects::Unknown, step);
            }
        }
        let session = self.session.take();
        let folder = session
            .as_ref()
            .zip(end.home)
            .and_then(|(session, home)| session_log::session_folder(&grok_home(home), session.id()));
        let answers = folder.as_deref().and_then(session_log::answers);
        // Without a regular end, the record may lag behind the output.
        let is_comparable = |answers: &Vec<LoggedAnswer>| {
            matches!(self.last, Some(Last::End(_))) || answers.len() == self.closed.len()
        };
        let turn_end = folder.as_deref().and_then(session_log::turn_end);
        if let Some(answers) = answers.filter(is_comparable) {
            let has_retries = turn_end.as_ref().is_some_and(TurnEnd::has_retries);
            let cause = if has_retries { VoidCause::Retry } else { VoidCause::NotInRecord };
            self.correct(&answers, cause, step);
        }
        step.outcome = self.verdict(turn_end.as_ref()).or_else(|| self.unsandboxed(end.stderr_tail));
        if let (Some(TurnOutcome::Answered { .. }), Some(ProcessExit::Code(code @ 1..)), false) =
            (&step.outcome, end.exit, end.was_stopped)
        {
            step.event(TurnEvent::warning(format!("the program ended with code {code} after its answer")));
        }
        if let (Some(session), Some(folder)) = (session, folder) {
            match session.keep(&folder) {
                Ok(()) => {
                    let state = json!({ "session": session.id() });
                    step.resume = Some(ResumeHandle::new(self.backend.clone(), state));
                }
                Err(error) => {
                    step.event(TurnEvent::warning(format!("the conversation could not be stored: {error}")));
                }
            }
        }
    }
}

/// Returns the CLI's own folder in the home of a run.
pub(super) fn grok_home(home: &Path) -> std::path::PathBuf {
    home.join("grok")
}

fn read<T: DeserializeOwned>(line: &[u8]) -> Option<T> {
    serde_json::from_slice(line).ok()
}

fn into_usage(tokens: wire::Tokens) -> Usage {
    let mut usage = Usage::new();
    usage.input_tokens = tokens.input_tokens;
    usage.cache_read_tokens = tokens.cache_read_input_tokens;
    usage.cache_write_tokens = tokens.cache_creation_input_tokens;
    usage.reasoning_tokens = tokens.reasoning_tokens;
    let reasoning = tokens.reasoning_tokens.unwrap_or(0);
    usage.output_tokens = tokens.output_tokens.map(|output| output.saturating_sub(reasoning));
    usage
}
