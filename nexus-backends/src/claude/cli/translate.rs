//! Translates the lines of `claude` into events and an outcome.
//!
//! Before the prompt is written, the CLI reports whose credential it uses, and that it has the caller's tools.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use nexus_core::{
    ApprovalAction, ApprovalRequest, Cost, CostSource, Denial, ErrorKind, FinishReason, ModelId, Phase,
    ToolAccess, TurnEvent, Usd,
    harness::Failure,
    lenient_json::Halves,
    turn::{
        ContextUsage, ConversationCompacted, RateLimitNotification, RateLimitStatus, Retrying, Unrecognized,
    },
};
use serde_json::Value;

use super::conversation::ConversationState;
use super::inputs::Inputs;
use super::messages::{BlockKind, Messages};
use super::models::takes_effort;
use super::outcome::Witness;
use super::outgoing::{
    System, allow, deny, initialize, input, interrupt, refuse, server_status, set_servers, user,
};
use super::startup_throttle::FirstTurn;
use super::tool_calls::ProcessCalls;
use super::wire::{
    AskedLine, AssistantLine, Block, ControlAnswer, ControlLine, ControlResponse, Head, RateLimitLine,
    ResultLine, StreamLine, SystemLine, UserLine,
};
use super::{account, mcp_config, outcome, tools, wire};
use crate::cli::caller_tools::CallerTools;
use crate::cli::permission::{Permission, Permissions};
use crate::cli::settings::Billing;
use crate::cli::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator, TurnOutcome};

/// Id of the control request that opens the conversation.
const OPENING: &str = "nexus-open";

/// Id of the control request that names the server of the caller's tools.
const TOOLS: &str = "nexus-tools";

/// Id of the control request that asks for the list of connected tools.
const TOOLS_READY: &str = "nexus-tools-ready";

/// Id of the control request that interrupts the turn.
const STOP: &str = "nexus-stop";

/// Maximum length of a CLI message to the model that a warning repeats, in characters.
const NUDGE_CHARACTERS: usize = 200;

/// Inputs of a conversation.
#[derive(Debug)]
pub(super) struct Opening {
    /// The prompt, as blocks of the vendor's API.
    pub(super) prompt: Vec<Value>,
    /// The caller's instructions.
    pub(super) system: Option<String>,
    /// The shape of the answer.
    pub(super) schema: Option<Value>,
    /// Access level of the harness's own tools.
    pub(super) access: ToolAccess,
    /// Decisions for calls about which the CLI requests permission at that level.
    pub(super) permissions: Permissions,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<CallerTools>,
    /// Expected payer.
    pub(super) billing: Option<Billing>,
    /// Model and effort of the command line.
    pub(super) model_and_effort: Option<(String, String)>,
    /// State of the conversation on disk.
    pub(super) session: ConversationState,
    /// Startup throttle that is held until the model answers. `None` if no process waits for it.
    pub(super) first_turn: Option<FirstTurn>,
}

/// Translates the output of one `claude` process.
#[derive(Debug)]
pub(crate) struct ClaudeTranslator {
    opening: Opening,
    stage: Stage,
    /// True if the CLI has listed the model's tools, and the list is as expected.
    is_listed: bool,
    is_streaming: bool,
    is_stopping: bool,
    /// The turn's own model, as the CLI named it when it started.
    model: Option<String>,
    messages: Messages,
    calls: ProcessCalls,
    /// Background tasks that have not ended.
    tasks: BTreeSet<String>,
    /// Outcome that is delayed until the background tasks end.
    held: Option<TurnOutcome>,
    witness: Witness,
    /// Text that the CLI wrote in the model's place. It becomes a warning only if the turn continues.
    excuse: Option<String>,
    /// Permission requests that the host has not answered, by their numbers.
    questions: BTreeMap<u64, Question>,
    next_question: u64,
    inputs: Inputs,
}

/// Call for which the CLI requested permission.
#[derive(Debug)]
struct Question {
    request_id: String,
    tool_use_id: String,
    input: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The conversation is being opened.
    Starting,
    /// The caller's tools are being connected.
    Connecting,
    /// The connected tools are being listed.
    Listing,
    /// The prompt was sent.
    Asked,
}

impl ClaudeTranslator {
    /// Creates a translator that has read nothing yet.
    pub(super) fn new(opening: Opening) -> Self {
        let witness = Witness { resumes: opening.session.resumes(), ..Witness::default() };
        let calls = ProcessCalls::new(opening.access, opening.tools.clone());
        Self {
            opening,
            stage: Stage::Starting,
            is_listed: false,
            is_streaming: false,
            is_stopping: false,
            model: None,
            messages: Messages::default(),
            calls,
            tasks: BTreeSet::new(),
            held: None,
            witness,
            excuse: None,
            questions: BTreeMap::new(),
            next_question: 0,
            inputs: Inputs::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn opening_for_tests(&mut self) -> &mut Opening {
        &mut self.opening
    }

    /// Reads a line; `None` for an unknown line.
    fn read(&mut self, output: OutputLine<'_>, step: &mut Step) -> Option<()> {
        let head: Head<'_> = output.read().ok()?;
        match &*head.kind {
            "stream_event" => self.stream(output.read().ok()?, output.halves(), step),
            "assistant" => self.assistant(output.read().ok()?, step),
            "user" => self.user(output.read().ok()?, step),
            "system" => {
                let subtype = head.subtype.as_deref().unwrap_or_default();
                self.system(subtype, output.read().ok()?, step)
            }
            "result" => {
                let mut result: ResultLine = output.read().ok()?;
                // Repaired JSON may have lost or replaced a value, and the caller would trust the answer's shape.
                if result.structured_output.is_some()
                    && let Some(flaw) = output.flaw()
                {
                    let text = format!("the structured answer is unreliable and was rejected: {flaw}");
                    step.event(TurnEvent::warning(text));
                    result.structured_output = None;
                }
                self.result(result, step)
            }
            // Progress of an input. Ignored, because every version also echoes the input.
            "command_lifecycle" => Some(()),
            "rate_limit_event" => self.rate_limit(output.read().ok()?, step),
            "control_response" => self.control(output.read().ok()?, step),
            "control_request" => self.asked(output.read().ok()?, output.flaw(), step),
            _ => None,
        }
    }

    /// Releases the startup throttle, because the model has answered.
    fn is_answered(&mut self) {
        if let Some(first_turn) = self.opening.first_turn.take() {
            first_turn.was_answered();
        }
    }

    fn stream(&mut self, line: StreamLine<'_>, halves: Halves, step: &mut Step) -> Option<()> {
        // No known version forwards the streams of sub-agents. Their deltas must not join the agent's own message.
        if line.parent_tool_use_id.is_some() {
            return None;
        }
        let event = line.event;
        match &*event.kind {
            "message_start" => {
                let message = event.message.as_ref()?;
                self.is_answered();
                self.unlisted(step);
                self.goes_on(step);
                self.is_streaming = true;
                self.messages.start(&message.id, message.usage, step);
            }
            "content_block_delta" => {
                let delta = event.delta?;
                match &*delta.kind {
                    "text_delta" => self.messages.delta(BlockKind::Text, delta.text, halves, step),
                    "thinking_delta" => {
                        self.messages.delta(BlockKind::Thinking, delta.thinking, halves, step);
                    }
                    "input_json_delta" | "signature_delta" | "citations_delta" => {}
                    _ => return None,
                }
            }
            "message_delta" => {
                let stop_reason = event.delta.as_ref().and_then(|delta| delta.stop_reason.clone());
                self.messages.last_word(stop_reason, event.usage);
            }
            "message_stop" => {
                self.is_streaming = false;
                self.messages.stop(step);
            }
            "content_block_start" | "content_block_stop" | "ping" => {}
            _ => return None,
        }
        Some(())
    }

    fn assistant(&mut self, line: AssistantLine, step: &mut Step) -> Option<()> {
        let parent = line.parent_tool_use_id.as_deref();
        let message = line.message;
        let is_synthetic = message.is_synthetic();
        let blocks = message.content?.into_iter().map(|raw| {
            let block: Block = serde_json::from_value(raw.clone()).unwrap_or_default();
            (block, raw)
        });
        if is_synthetic {
            // The CLI writes such a text also in the middle of a turn that later succeeds, so it decides nothing yet.
            self.witness.error = line.error;
            self.excuse = Some(blocks.map(|(block, _)| block.text).collect());
            return Some(());
        }
        self.stage = Stage::Asked;
        self.is_answered();
        self.unlisted(step);
        if parent.is_none() {
            self.goes_on(step);
        }
        for (block, raw) in blocks {
            let content = match block.kind.as_str() {
                "text" => Some((BlockKind::Text, block.text.clone())),
                "thinking" => Some((BlockKind::Thinking, block.thinking.clone())),
                _ => None,
            };
            self.messages.confirm(&message.id, parent, content, step);
            match block.kind.as_str() {
                "text" | "thinking" | "redacted_thinking" => {}
                "tool_use" | "server_tool_use" => self.calls.begin(block, parent, step),
                kind if kind.ends_with("_tool_result") => self.answer(&block, step),
                _ => step.event(Unrecognized::new(Some(format!("assistant/{}", block.kind)), raw)),
            }
        }
        if parent.is_none() {
            self.messages.reported(message.stop_reason, message.usage);
        }
        Some(())
    }

    /// Handles the result of a call.
    fn answer(&mut self, block: &Block, step: &mut Step) {
        self.messages.close_sub(&block.tool_use_id, step);
        self.calls.end(block, step);
    }

    fn user(&mut self, line: UserLine, step: &mut Step) -> Option<()> {
        let is_nudge = line.parent_tool_use_id.is_none() && !line.is_replay;
        if line.is_replay {
            step.delivered.extend(line.uuid.as_deref().and_then(|name| self.inputs.taken(name)));
        }
        let blocks = match line.message.content {
            Value::Array(blocks) => blocks,
            Value::String(text) => {
                if is_nudge {
                    self.nudged(&text, step);
                }
                return Some(());
            }
            _ => return None,
        };
        for raw in blocks {
            let block: Block = serde_json::from_value(raw.clone()).ok()?;
            match block.kind.as_str() {
                "tool_result" => self.answer(&block, step),
                "text" if is_nudge => self.nudged(&block.text, step),
                // Ignore content that is no output of the agent: text for a sub-agent, or text from the caller.
                "text" | "image" | "document" => {}
                _ => step.event(Unrecognized::new(Some(format!("user/{}", block.kind)), raw)),
            }
        }
        Some(())
    }

    /// Handles a message from the CLI to the model: the answer was cut off, empty, or has the wrong shape.
    fn nudged(&mut self, text: &str, step: &mut Step) {
        if self.is_stopping {
            return;
        }
        if self.opening.schema.is_some() {
            self.messages.take_back(step);
        }
        let text: String = text.chars().take(NUDGE_CHARACTERS).collect();
        step.event(TurnEvent::warning(format!("the CLI informed the model: {text}")));
    }

    fn system(&mut self, subtype: &str, line: SystemLine, step: &mut Step) -> Option<()> {
        match subtype {
            "init" => self.init(line, step),
            "api_retry" => {
                let status = line.error_status.map(|status| format!("status {status}: ")).unwrap_or_default();
                let error = line.error.unwrap_or_else(|| "unknown".to_owned());
                let delay =
                    line.retry_delay_ms.and_then(|delay| Duration::try_from_secs_f64(delay / 1000.0).ok());
                // The CLI counts the failed attempt, the event counts the next.
                let retrying =
                    Retrying::new(line.attempt.unwrap_or(1).saturating_add(1), format!("{status}{error}"));
                step.event(retrying.with_delay(delay).with_kind(retry_kind(line.error_status, &error)));
                self.is_streaming = false;
            }
            "model_fallback" => {
                step.event(TurnEvent::warning(
                    line.content.unwrap_or_else(|| "another model took over".to_owned()),
                ));
            }
            "informational" => step.event(TurnEvent::warning(line.content?)),
            "compact_boundary" => step.event(ConversationCompacted::new()),
            "permission_denied" => {
                self.calls.deny(line.tool_use_id?);
            }
            "task_started" => {
                self.tasks.insert(line.task_id?);
            }
            "task_notification" => {
                self.tasks.remove(&line.task_id?);
            }
            "task_updated" if matches!(line.patch.status.as_deref(), None | Some("running" | "pending")) => {}
            "task_updated" => {
                self.tasks.remove(&line.task_id?);
            }
            _ if wire::is_harmless(subtype) => {}
            _ => return None,
        }
        Some(())
    }

    /// Handles the line that the CLI writes before it calls the model.
    fn init(&mut self, line: SystemLine, step: &mut Step) {
        self.stage = Stage::Asked;
        self.inputs.goes_on();
        self.is_streaming = false;
        self.model.clone_from(&line.model);
        step.model = line.model.map(ModelId::new);
        step.version = line.claude_code_version;
        if let Some(session) = line.session_id {
            step.conversation = Some(session.clone());
            self.opening.session.is_at(session);
            step.resume = self.opening.session.handle();
        }
        match line.tools {
            Some(tools) => {
                match self.check_tools(&tools) {
                    Ok(()) => self.is_listed = true,
                    Err(failure) => step.failed_and_stops(failure),
                }
                self.calls.offer(tools);
            }
            None => {
                step.event(Unrecognized::new(Some("system/init without tools".to_owned()), Value::Null));
                self.unlisted(step);
            }
        }
    }

    /// Fails a turn whose level is a list of tools, if the CLI does not report its model's tools. Such a level counts
    /// as enforced only after the list was checked.
    fn unlisted(&self, step: &mut Step) {
        let access = self.opening.access;
        if !self.is_listed && tools::is_list(access) && step.outcome.is_none() {
            let level = access.as_str();
            let reason = format!("the CLI does not report its model's tools, so {level} cannot be verified");
            step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
        }
    }

    /// Compares the model's tools with the required and the forbidden ones.
    fn check_tools(&self, offered: &[String]) -> Result<(), Failure> {
        let Opening { access, tools, .. } = &self.opening;
        if let Some(tool) = tools::forbidden(*access, offered, tools.as_ref()) {
            let level = access.as_str();
            let reason = format!("the CLI offers the model the tool {tool}, which {level} does not allow");
            return Err(Failure::new(ErrorKind::Unsupported, reason));
        }
        tools.as_ref().map_or(Ok(()), |tools| mcp_config::offered(offered, tools))
    }

    fn rate_limit(&mut self, line: RateLimitLine, step: &mut Step) -> Option<()> {
        let info = line.rate_limit_info;
        let status = match info.status.as_str() {
            "allowed" => RateLimitStatus::Allowed,
            "allowed_warning" => RateLimitStatus::Warning,
            "rejected" => RateLimitStatus::Rejected,
            _ => return None,
        };
        let at = info.resets_at.and_then(|at| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        let notification = RateLimitNotification::new(status)
            .with_window(info.rate_limit_type.clone())
            .with_used_percent(info.utilization.map(|used| used * 100.0))
            .with_resets_at(at);
        step.event(notification);
        self.witness.rejected = Some(info).filter(|_| status == RateLimitStatus::Rejected);
        Some(())
    }

    /// Handles a control response, which advances the opening by one step. The prompt is the last step.
    fn control(&mut self, line: ControlLine, step: &mut Step) -> Option<()> {
        let ControlResponse { subtype, request_id, error, response } = line.response;
        let is_done = subtype == "success";
        let taken = match (self.stage, request_id.as_str()) {
            (Stage::Starting, OPENING) if is_done => self.opened(&response, step),
            (Stage::Starting, OPENING) => {
                let reason = error.unwrap_or_else(|| "it refused to begin".to_owned());
                Err(Failure::new(ErrorKind::Protocol, reason))
            }
            (Stage::Connecting, TOOLS) => {
                self.with_tools(is_done, error, |tools| mcp_config::connected(&response, tools))
            }
            (Stage::Listing, TOOLS_READY) => {
                self.with_tools(is_done, error, |tools| mcp_config::ready(&response, tools))
            }
            // Responses to an interrupt and late responses need no action.
            _ => return Some(()),
        };
        match taken {
            Ok(()) => self.go_on(step),
            Err(failure) => step.failed(failure),
        }
        Some(())
    }

    /// Checks billing and effort once the conversation is open.
    fn opened(&self, answer: &ControlAnswer, step: &mut Step) -> Result<(), Failure> {
        let warning = account::check(answer.account.as_ref(), self.opening.billing)?;
        warning.into_iter().for_each(|text| step.event(TurnEvent::warning(text)));
        if let Some((model, effort)) = &self.opening.model_and_effort
            && !takes_effort(&answer.models, model, effort)
        {
            step.event(TurnEvent::warning(format!("the model {model} does not support the effort {effort}")));
        }
        Ok(())
    }

    /// Checks a response about the caller's tools.
    fn with_tools(
        &self,
        is_done: bool,
        error: Option<String>,
        check: impl FnOnce(&CallerTools) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match &self.opening.tools {
            Some(tools) if is_done => check(tools),
            Some(tools) => Err(mcp_config::refused(tools, error)),
            None => Ok(()),
        }
    }

    /// Writes the next line of the opening: with tools, first the tool server, then the request for its status; last
    /// the prompt.
    fn go_on(&mut self, step: &mut Step) {
        let (stage, words) = match (self.stage, &self.opening.tools) {
            (Stage::Starting, Some(tools)) => {
                (Stage::Connecting, set_servers(TOOLS, &mcp_config::servers(tools)))
            }
            (Stage::Connecting, Some(_)) => (Stage::Listing, server_status(TOOLS_READY)),
            _ => (Stage::Asked, user(&self.opening.prompt)),
        };
        self.stage = stage;
        step.write(words);
    }

    /// Responds to a request of the CLI, which would otherwise wait for ever.
    fn asked(&mut self, line: AskedLine, flaw: Option<String>, step: &mut Step) -> Option<()> {
        if line.request.subtype == "can_use_tool" {
            if let Some(flaw) = flaw {
                let reason = format!("the permission request has unreliable JSON: {flaw}");
                step.event(TurnEvent::warning(format!("{} was refused: {reason}", line.request.tool_name)));
                self.calls.deny(line.request.tool_use_id);
                step.write(deny(&line.request_id, &reason));
                return Some(());
            }
            self.permission(line.request_id, line.request, step);
            return Some(());
        }
        step.write(refuse(&line.request_id));
        None
    }

    /// Handles a permission request for a tool call. The CLI requests permission only for calls that it does not allow
    /// by itself, so the call is allowed only if the host approves it.
    fn permission(&mut self, request_id: String, call: wire::Asked, step: &mut Step) {
        let action = tools::action(&call.tool_name);
        let paths = Vec::from_iter(call.blocked_path);
        let permissions = &self.opening.permissions;
        // The CLI may also ask about a path inside the turn's folders. Unless the tool only reads, the turn must be
        // allowed to write to the path.
        let is_beyond = action != ApprovalAction::Read
            && !paths.is_empty()
            && permissions.of_call(ApprovalAction::Write, &paths) == Permission::No;
        // Once its input is closed, the CLI could not receive the host's decision.
        let is_deaf = self.is_stopping || self.held.is_some();
        let said = if is_beyond || is_deaf { Permission::No } else { permissions.of_call(action, &paths) };
        match said {
            Permission::No => {
                self.calls.deny(call.tool_use_id);
                step.write(deny(&request_id, "it exceeds the permissions of this turn"));
            }
            Permission::Yes | Permission::Ask => {
                let question = self.next_question;
                self.next_question += 1;
                let request = ApprovalRequest::of_harness(call.tool_name, action, call.input.clone());
                let title = ["command", "url", "query"].iter().find_map(|key| call.input.get(key)?.as_str());
                let request = match title {
                    Some(title) => request.with_title(title),
                    None => request,
                };
                step.ask(question, request.with_paths(paths));
                // The call counts as denied until the host allows it.
                self.calls.deny(call.tool_use_id.clone());
                let asked = Question { request_id, tool_use_id: call.tool_use_id, input: call.input };
                self.questions.insert(question, asked);
            }
        }
    }

    /// Denies all permission requests that the host has not answered.
    fn refuse_questions(&mut self, step: &mut Step) {
        for (_, question) in std::mem::take(&mut self.questions) {
            step.write(deny(&question.request_id, "the turn ends"));
        }
    }

    /// Handles a continuation of the turn's own agent: the text that the CLI wrote in its place was not the end.
    fn goes_on(&mut self, step: &mut Step) {
        self.witness.error = None;
        if let Some(excuse) = self.excuse.take() {
            step.event(TurnEvent::warning(excuse));
        }
    }

    fn result(&mut self, line: ResultLine, step: &mut Step) -> Option<()> {
        self.is_streaming = false;
        self.excuse = None;
        if let Some(session) = &line.session_id {
            self.opening.session.is_at(session.clone());
        }
        self.account_for(&line, step);
        let window = line.context_window(self.model.as_deref());
        let verdict = match outcome::judge(&line, &self.witness) {
            Ok(finish) => self.answered(line, finish, step),
            Err(failure) => TurnOutcome::Failed(failure),
        };
        if let Some(used) = self.messages.context_tokens() {
            step.event(ContextUsage::new(used, window));
        }
        step.resume = self.opening.session.handle();
        // The process may answer again, to a repair or an input. This answer's state must not affect that one.
        self.witness = Witness::default();
        self.calls.forget();
        if self.inputs.are_waiting() && !self.is_stopping {
            match verdict {
                // With an input waiting, the CLI would now call the model by itself, so stop it.
                TurnOutcome::Failed(failure) => step.failed_and_stops(failure),
                answered if self.tasks.is_empty() => self.inputs.hold(answered),
                answered => self.hold(answered, step),
            }
        } else if self.tasks.is_empty() || matches!(verdict, TurnOutcome::Failed(_)) || self.is_stopping {
            self.held = None;
            step.outcome = Some(verdict);
        } else {
            self.hold(verdict, step);
        }
        Some(())
    }

    /// Delays the outcome: the CLI reports the end of background tasks to the model, which then gives another answer.
    fn hold(&mut self, verdict: TurnOutcome, step: &mut Step) {
        step.event(TurnEvent::warning("the answer waits for background work of the agent"));
        self.held = Some(verdict);
        self.refuse_questions(step);
        // The CLI does not exit while its input is open. Its exit releases the outcome if no further answer follows.
        step.close_stdin = true;
    }

    fn answered(&mut self, line: ResultLine, finish: FinishReason, step: &mut Step) -> TurnOutcome {
        self.messages.close(step);
        self.messages.close_subs(step);
        let text = line.result.unwrap_or_default();
        if self.messages.last_text().is_empty() && !text.is_empty() {
            self.messages.add(line.uuid.as_deref().unwrap_or("result"), &text, step);
        }
        // The CLI reports an empty answer of the model as `success` with an empty `result`.
        if line.structured_output.is_none() && self.messages.last_text().trim().is_empty() {
            return TurnOutcome::Failed(Failure::new(ErrorKind::Incomplete, "the answer is empty"));
        }
        TurnOutcome::Answered { finish, output: line.structured_output }
    }

    /// Updates tokens and cost of the turn.
    fn account_for(&mut self, line: &ResultLine, step: &mut Step) {
        if let Some((usage, cost)) = self.opening.session.account(line, &self.messages.counted()) {
            step.usage = Some(usage);
            step.cost = cost.map(|usd| Cost { usd: Usd(usd), source: CostSource::Estimated });
        } else if !line.is_error && line.num_turns != Some(0) {
            step.event(TurnEvent::warning(
                "the CLI does not report the usage of the turn: the token counts are the sum of its messages",
            ));
        }
    }
}

impl Translator for ClaudeTranslator {
    fn open(&mut self, step: &mut Step) {
        let texts: Vec<&str> = self.opening.system.as_deref().into_iter().collect();
        let system = match (self.opening.access, self.opening.system.as_deref()) {
            // At this level the agent has no tools of the vendor, so the vendor's coding instructions are of no use.
            (ToolAccess::ScopedOnly, _) => System::Replace(&texts),
            (_, Some(text)) => System::Append(text),
            (_, None) => System::Vendor,
        };
        step.write(initialize(OPENING, system, self.opening.schema.as_ref()));
    }

    fn read_line(&mut self, line: OutputLine<'_>, step: &mut Step) -> bool {
        self.inputs.heard();
        self.read(line, step).is_some()
    }

    fn unrecognized(&self, line: &[u8]) -> Unrecognized {
        let name = serde_json::from_slice::<Head<'_>>(line).ok().map(|head| match head.subtype {
            Some(subtype) => format!("{}/{subtype}", head.kind),
            None => head.kind.into_owned(),
        });
        // An unknown `stream_event` is harmless, because a separate line confirms each streamed block.
        let is_streamed = name.as_deref() == Some("stream_event");
        let unknown = Unrecognized::of_line(name, line);
        if is_streamed { unknown.harmless() } else { unknown }
    }

    fn unreadable(&mut self, beginning: &[u8], step: &mut Step) {
        let head = serde_json::from_slice::<Head<'_>>(beginning);
        let is_result = match &head {
            Ok(head) => head.kind == "result",
            // The beginning is cut inside the JSON, so recognise the line by its first bytes.
            Err(_) => beginning.trim_ascii_start().starts_with(br#"{"type":"result""#),
        };
        if is_result {
            self.messages.close(step);
            self.messages.close_subs(step);
            let reason = "the line that ends the turn cannot be read";
            step.failed(Failure::new(ErrorKind::Protocol, reason));
        }
    }

    fn approved(&mut self, question: u64, answer: Result<(), Denial>, step: &mut Step) {
        // The end of the turn has already denied the requests that were open.
        let Some(Question { request_id, tool_use_id, input }) = self.questions.remove(&question) else {
            return;
        };
        match answer {
            Ok(()) => {
                self.calls.allow(&tool_use_id);
                step.write(allow(&request_id, &input));
            }
            Err(denial) => step.write(deny(&request_id, &denial.to_string())),
        }
    }

    fn takes_input(&self) -> bool {
        self.stage == Stage::Asked && !self.is_stopping && self.held.is_none() && self.calls.is_going_on()
    }

    fn input(&mut self, number: u64, text: &str, step: &mut Step) {
        let name = self.inputs.name(number);
        step.write(input(&name, &super::prompt::text_blocks(text)));
    }

    fn look(&mut self, _stderr_tail: &dyn Fn() -> String, step: &mut Step) {
        if let Some(verdict) = self.inputs.is_silent() {
            step.outcome = Some(verdict);
        }
    }

    fn interrupt(&mut self, step: &mut Step) -> StopRequest {
        self.refuse_questions(step);
        self.is_stopping = true;
        self.calls.stop();
        match self.stage {
            Stage::Asked => step.write(interrupt(STOP)),
            // No prompt was sent yet: the process ends by itself once its input is closed.
            _ => step.close_stdin = true,
        }
        StopRequest::Written
    }

    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair {
        self.witness = Witness::default();
        self.messages.forget_last();
        step.write(user(&super::prompt::text_blocks(instruction)));
        Repair::SameProcess
    }

    fn phase(&self) -> Phase {
        if self.stage != Stage::Asked {
            Phase::Start
        } else if self.is_streaming {
            Phase::Model
        } else if self.calls.is_waiting() || self.held.is_some() {
            Phase::Tool
        } else {
            Phase::FirstByte
        }
    }

    fn ended(&mut self, end: &ProcessEnd<'_>, step: &mut Step) {
        // Precedes the return below, because the conversation of a stopped turn must also be forgettable.
        if let Err(error) = self.opening.session.write_note() {
            let text = format!(
                "the id of the stored conversation could not be written, so it cannot be forgotten: \
                    {error}"
            );
            step.event(TurnEvent::warning(text));
        }
        if end.was_stopped {
            return;
        }
        self.messages.close_subs(step);
        let verdict = self.held.take().or_else(|| self.inputs.held());
        step.outcome = Some(verdict.unwrap_or_else(|| TurnOutcome::Failed(outcome::without_record(end))));
    }
}

fn retry_kind(status: Option<u16>, error: &str) -> Option<ErrorKind> {
    Some(match (status, error) {
        (Some(401 | 403), _) | (_, "authentication_failed") => ErrorKind::Unauthenticated,
        (Some(429), _) | (_, "rate_limit") => ErrorKind::RateLimited,
        // The vendor's API reports an overloaded model as 529.
        (Some(503 | 529), _) | (_, "overloaded") => ErrorKind::Overloaded,
        (Some(_), _) => ErrorKind::VendorFailure,
        (None, _) => ErrorKind::Transport,
    })
}
