//! Reads an agent's messages, and decides which messages to send.
//!
//! The exchange consists of `initialize`, then `session/new`, or `session/resume` or `session/load` for a resumed
//! conversation. `session/set_mode` follows if the level needs a mode. Last comes `session/prompt`, whose response
//! decides the outcome together with the other messages.

mod questions;
mod session_end;

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    path::PathBuf,
    time::Duration,
};

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, InitializeResponse, NewSessionResponse, PromptResponse,
    RequestPermissionRequest, StopReason, ToolCallUpdate,
};
use nexus_core::{
    ApprovalRequest, BackendId, Denial, ErrorKind, FinishReason, Limit, MessageId, Phase, QuestionReply,
    TurnEvent, Usage,
    harness::Failure,
    lenient_json::{self, HalfJoiner, Halves},
    turn::{ContextUsage, MessageEnded, TextDelta, ThinkingDelta, Unrecognized},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::questions::OpenElicitation;
use super::agent::{CallNames, UsageReport};
use super::failure::{self, OwnWords, RefusedRequest, RpcError};
use super::home::StoredSession;
use super::session_answers::{current_model, has_mode, model_option, usage_of, usage_with_cached};
use super::sign_in::{AgentLogin, TERMINAL_AUTH};
use super::tool_calls::{ReportedCalls, option};
use crate::cli::caller_tools::{CallerTools, SERVER};
use crate::cli::permission::{Permission, Permissions};
use crate::cli::stats::difference;
use crate::cli::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator};

/// Revision of the protocol. Source: the protocol.
const PROTOCOL: u64 = 1;
/// Longest time, in ticks, until an agent lists the caller's tools after its session has begun. Source: our own choice;
/// the known agents take up to 2 seconds.
const TOOLS_PATIENCE: u32 = 20;

/// Inputs of one process's exchange.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) backend: BackendId,
    pub(super) working_directory: PathBuf,
    pub(super) prompt: Vec<Value>,
    /// Value of `_meta` in the request that opens the session.
    pub(super) meta: Option<Value>,
    /// Method of `authenticate` before the session.
    pub(super) authentication: Option<String>,
    /// Mode that the access level needs.
    pub(super) mode: Option<&'static str>,
    /// Beginnings of the names of the agent's own methods, if they lack the protocol's prefix for extensions.
    pub(super) extensions: Vec<String>,
    /// Model, if the session sets it.
    pub(super) model: Option<String>,
    pub(super) tools: Option<CallerTools>,
    pub(super) permissions: Permissions,
    /// Folder of the stored conversation, if it is stored.
    pub(super) session: Option<StoredSession>,
    /// The agent's own id of the conversation to resume.
    pub(super) resume: Option<String>,
    /// True if a session that is not stored by Nexus stays in the user's home.
    pub(super) leaves_session: bool,
    /// True if the host answers questions of the agent.
    pub(super) takes_questions: bool,
    pub(super) login: AgentLogin,
    pub(super) usage: UsageReport,
    pub(super) names: CallNames,
    pub(super) is_broken_uncounted: bool,
    /// Classifies the agent's own error messages.
    pub(super) own_words: OwnWords,
    pub(super) exit: Duration,
    /// Prefix that distinguishes the messages and calls of several processes.
    pub(super) prefix: String,
}

/// Translator for one process of an agent.
#[derive(Debug)]
pub(crate) struct AcpTranslator {
    script: Script,
    next_id: u64,
    asked: BTreeMap<u64, Asked>,
    stage: Stage,
    agent: InitializeResponse,
    session: Option<String>,
    /// Number of ticks in which the program did not list the caller's tools.
    looks: u32,
    message: Option<OpenMessage>,
    messages: u32,
    /// All text of the answer to this prompt.
    said: String,
    calls: ReportedCalls,
    /// Usage of all prompts.
    usage: Usage,
    /// Last usage that an answer to a prompt reported.
    last_report: Usage,
    cost_before: Option<f64>,
    /// The fill of the context that was reported last.
    context: Option<ContextUsage>,
    /// Open permission questions to the host, by their numbers.
    permissions: BTreeMap<u64, OpenPermission>,
    next_question: u64,
    /// Questions to the person that have no answer yet, by their numbers.
    elicitations: BTreeMap<u64, OpenElicitation>,
    /// Ids of the pages to which the host agreed.
    pages: BTreeSet<String>,
    /// True after a permission was denied.
    has_refused: bool,
    is_stopping: bool,
    halves: HalfJoiner,
    /// Split characters at the ends of the current line.
    line_halves: Halves,
    /// True if a part of the answer could not be read.
    has_lost_chunk: bool,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Initialize,
    Authentication,
    Session(RefusedRequest),
    Mode,
    Model,
    Prompt,
    /// A last request, whose response changes nothing.
    Farewell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The session is being opened.
    Opening,
    /// The session is open, and the agent must still list the caller's tools.
    Connecting,
    /// The prompt was sent.
    Prompted,
    /// The response to the prompt arrived.
    Answered,
}

/// Message that is being streamed.
#[derive(Debug)]
struct OpenMessage {
    id: MessageId,
    vendor_id: Option<String>,
    text: String,
}

/// Permission question to the host.
#[derive(Debug)]
struct OpenPermission {
    id: Value,
    request: RequestPermissionRequest,
}

/// JSON-RPC message.
#[derive(Debug, Deserialize)]
struct Line {
    id: Option<Value>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Value>,
    error: Option<RpcError>,
}

impl AcpTranslator {
    /// Creates a translator for a process that gets the requests of `script`.
    pub(super) fn new(script: Script) -> Self {
        let calls = ReportedCalls::new(script.tools.clone(), script.names, script.prefix.clone());
        Self {
            script,
            next_id: 0,
            asked: BTreeMap::new(),
            stage: Stage::Opening,
            agent: InitializeResponse::new(1.into()),
            session: None,
            looks: 0,
            message: None,
            messages: 0,
            said: String::new(),
            calls,
            usage: Usage::new(),
            last_report: Usage::new(),
            cost_before: None,
            context: None,
            permissions: BTreeMap::new(),
            next_question: 0,
            elicitations: BTreeMap::new(),
            pages: BTreeSet::new(),
            has_refused: false,
            is_stopping: false,
            halves: HalfJoiner::default(),
            line_halves: Halves::default(),
            has_lost_chunk: false,
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: &Value, step: &mut Step) {
        self.next_id += 1;
        self.asked.insert(self.next_id, asked);
        write(step, &json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }));
    }

    fn answer(&mut self, asked: Asked, result: Result<Value, RpcError>, step: &mut Step) {
        let result = match (result, asked) {
            (_, Asked::Farewell) => {
                // Wait for the last response: the agent may exit at the end of its input before it handles the other
                // requests.
                step.close_stdin = !self.asked.values().any(|asked| *asked == Asked::Farewell);
                return;
            }
            (Ok(result), _) => result,
            // The agent rejected the mode or the model. The prompt was not sent yet.
            (Err(error), Asked::Mode) => {
                let mut failure = self.failed(&error, RefusedRequest::Setup);
                failure.kind = ErrorKind::Unsupported;
                return step.failed_and_stops(failure);
            }
            (Err(error), Asked::Model) => {
                let mut failure = self.failed(&error, RefusedRequest::Setup);
                failure.kind = ErrorKind::ModelUnavailable;
                return step.failed_and_stops(failure);
            }
            (Err(error), Asked::Initialize | Asked::Authentication) => {
                return step.failed_and_stops(self.failed(&error, RefusedRequest::Setup));
            }
            (Err(error), Asked::Session(refused)) => {
                return step.failed_and_stops(self.failed(&error, refused));
            }
            (Err(error), Asked::Prompt) => {
                self.prompt_ended(step);
                return step.failed(self.failed(&error, RefusedRequest::Prompt));
            }
        };
        match asked {
            Asked::Initialize => self.initialized(result, step),
            Asked::Authentication => self.open_session(step),
            Asked::Session(_) => self.opened(result, step),
            Asked::Mode | Asked::Model => self.prepare(step),
            Asked::Prompt => self.prompted(&result, step),
            Asked::Farewell => {}
        }
    }

    fn failed(&self, error: &RpcError, refused: RefusedRequest) -> Failure {
        failure::of(error, refused, (&self.script.login, &self.agent.auth_methods), self.script.own_words)
    }

    fn initialized(&mut self, result: Value, step: &mut Step) {
        let Some(agent) = read::<InitializeResponse>(result, "initialize", step) else { return };
        let revision = u64::from(agent.protocol_version.as_u16());
        if revision != PROTOCOL {
            let reason = format!(
                "the agent uses revision {revision} of the protocol, but Nexus supports only \
                    {PROTOCOL}"
            );
            return step.failed_and_stops(Failure::new(ErrorKind::Protocol, reason));
        }
        step.version = agent.agent_info.as_ref().map(|info| info.version.clone());
        let capabilities = &agent.agent_capabilities;
        if self.script.tools.is_some() && !capabilities.mcp_capabilities.http {
            let reason = "the agent does not support MCP servers over HTTP";
            return step.failed_and_stops(Failure::new(ErrorKind::ToolsUnavailable, reason));
        }
        self.agent = agent;
        match self.script.authentication.take() {
            Some(method) => {
                self.ask(Asked::Authentication, "authenticate", &json!({ "methodId": method }), step);
            }
            None => self.open_session(step),
        }
    }

    fn open_session(&mut self, step: &mut Step) {
        let capabilities = &self.agent.agent_capabilities;
        let can_resume = capabilities.session_capabilities.resume.is_some();
        let can_load = capabilities.load_session;
        let mut params = json!({ "cwd": self.script.working_directory, "mcpServers": self.servers() });
        if let Some(meta) = self.script.meta.take() {
            params["_meta"] = meta;
        }
        let Some(session) = self.script.resume.clone() else {
            return self.ask(Asked::Session(RefusedRequest::Setup), "session/new", &params, step);
        };
        params["sessionId"] = json!(session);
        // Set before the response, because updates that arrive while the agent loads the session already name it.
        self.session = Some(session);
        // Prefer to resume: loading repeats the whole conversation.
        let method = match (can_resume, can_load) {
            (true, _) => "session/resume",
            (false, true) => "session/load",
            (false, false) => {
                let reason = "the agent cannot resume a conversation";
                return step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
            }
        };
        self.ask(Asked::Session(RefusedRequest::Resume), method, &params, step);
    }

    fn servers(&self) -> Value {
        match &self.script.tools {
            None => json!([]),
            Some(tools) => {
                let bearer = format!("Bearer {}", tools.token().expose());
                let header = json!({ "name": "Authorization", "value": bearer });
                json!([{ "type": "http", "name": SERVER, "url": tools.url(), "headers": [header] }])
            }
        }
    }

    /// Handles the opened session.
    fn opened(&mut self, result: Value, step: &mut Step) {
        // The response to a resumed session contains no id, so add it.
        let named = result.get("sessionId").cloned();
        let mut result = result;
        if named.is_none() && result.is_object() {
            result["sessionId"] = json!(self.session);
        }
        let Some(opened) = read::<NewSessionResponse>(result.clone(), "session/new", step) else { return };
        let session = opened.session_id.to_string();
        self.session = Some(session.clone());
        step.conversation = Some(session.clone());
        if let Some(kept) = &self.script.session {
            match kept.handle(&self.script.backend, &session) {
                Ok(handle) => step.resume = Some(handle),
                Err(failure) => return step.failed_and_stops(failure),
            }
        }
        step.model = current_model(&result).map(Into::into);
        if let Some(mode) = self.script.mode {
            // Check the agent's list first: one agent accepts any name of a mode and ignores it.
            if !has_mode(opened.modes.as_ref(), mode) {
                let reason = format!("the agent has no mode {mode:?}, which enforces this access level");
                return step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
            }
            let params = json!({ "sessionId": session, "modeId": mode });
            self.ask(Asked::Mode, "session/set_mode", &params, step);
        }
        if let Some(model) = self.script.model.take() {
            let set = match model_option(&result) {
                Some(option) => (
                    "session/set_config_option",
                    json!({ "sessionId": session, "configId": option, "value": model }),
                ),
                // Not part of the protocol, but some agents set the model only this way.
                None => ("session/set_model", json!({ "sessionId": session, "modelId": model })),
            };
            self.ask(Asked::Model, set.0, &set.1, step);
            step.model = Some(model.into());
        }
        self.prepare(step);
    }

    /// Sends the prompt, once the session has the required mode, model and tools.
    fn prepare(&mut self, step: &mut Step) {
        let is_waiting = self.asked.values().any(|asked| matches!(asked, Asked::Mode | Asked::Model));
        if is_waiting || self.session.is_none() || matches!(self.stage, Stage::Prompted | Stage::Answered) {
            return;
        }
        // No known agent reports a server that it cannot reach, so the prompt waits until the tools were listed.
        if self.script.tools.as_ref().is_some_and(|tools| !tools.were_listed()) {
            self.stage = Stage::Connecting;
            return;
        }
        let prompt = mem::take(&mut self.script.prompt);
        self.prompt(&prompt, step);
    }

    fn prompt(&mut self, blocks: &[Value], step: &mut Step) {
        self.stage = Stage::Prompted;
        self.said.clear();
        self.has_lost_chunk = false;
        let params = json!({ "sessionId": self.session, "prompt": blocks });
        self.ask(Asked::Prompt, "session/prompt", &params, step);
    }

    fn prompt_ended(&mut self, step: &mut Step) {
        self.stage = Stage::Answered;
        self.end_message(step);
        self.cancel_questions(step);
    }

    /// Handles the response to the prompt.
    fn prompted(&mut self, result: &Value, step: &mut Step) {
        self.prompt_ended(step);
        let meta_usage = result.pointer("/_meta/usage").cloned();
        let Some(answer) = read::<PromptResponse>(result.clone(), "session/prompt", step) else { return };
        let usage = match self.script.usage {
            UsageReport::Answer => result.get("usage").and_then(usage_of),
            UsageReport::AnswerWithCached => result.get("usage").and_then(usage_with_cached),
            UsageReport::MetaWithCached => meta_usage.as_ref().and_then(usage_with_cached),
            UsageReport::None => None,
        };
        if let Some(usage) = usage {
            let of_prompt = match self.script.usage {
                UsageReport::MetaWithCached => usage,
                _ => usage_of_prompt(&usage, &self.last_report),
            };
            self.usage = self.usage.plus(&of_prompt);
            self.last_report = usage;
            step.usage = Some(self.usage);
        }
        let is_uncounted = usage.is_some_and(|usage| usage.output_tokens == Some(0));
        let is_empty = self.said.trim().is_empty();
        match answer.stop_reason {
            // From such an agent, an answer without counted tokens means that the stream ended too early.
            StopReason::EndTurn if self.script.is_broken_uncounted && is_uncounted && !is_empty => {
                let reason = "the answer is incomplete: the agent counted no output tokens";
                step.failed(Failure::new(ErrorKind::Incomplete, reason));
            }
            StopReason::EndTurn if self.has_lost_chunk => {
                let reason = "a part of the answer could not be read";
                step.failed(Failure::new(ErrorKind::Incomplete, reason));
            }
            // `end_turn` does not prove success: some agents also send it after a failed model call.
            StopReason::EndTurn if is_empty && !self.calls.are_known() => {
                let reason = "the turn ended without an answer";
                step.failed(Failure::new(ErrorKind::Incomplete, reason));
            }
            StopReason::EndTurn => step.answered(FinishReason::Stop),
            StopReason::MaxTokens => {
                step.failed(Failure::new(ErrorKind::Incomplete, "the answer reached the output limit"));
            }
            StopReason::MaxTurnRequests => {
                let limit = ErrorKind::LimitReached(Limit::ModelCalls);
                step.failed(Failure::new(limit, "the agent's own limit of model calls was reached"));
            }
            StopReason::Refusal => {
                step.failed(Failure::new(ErrorKind::Refused, "the model declined to answer"));
            }
            StopReason::Cancelled if self.is_stopping => step.failed(Failure::cancelled()),
            StopReason::Cancelled if self.has_refused => {
                let reason = "a call was not permitted, and the agent ended its turn because of that";
                step.failed(Failure::new(ErrorKind::ApprovalRequired, reason));
            }
            other => {
                let reason = format!("the agent ended the turn with the reason {other:?}");
                step.failed(Failure::new(ErrorKind::VendorFailure, reason));
            }
        }
    }

    fn notification(&mut self, method: &str, mut params: Value, step: &mut Step) {
        if method == "elicitation/complete" {
            if let Some(id) = params["elicitationId"].as_str() {
                self.page_completed(id, step);
            }
            return;
        }
        if method == "$/cancel_request" {
            return self.question_cancelled(params.get("requestId"), step);
        }
        if method != "session/update" {
            // Names with these prefixes are an agent's extensions, which a client must ignore. Source: the protocol,
            // extensibility.
            let is_extension = |prefix: &String| method.starts_with(prefix.as_str());
            if !method.starts_with('_')
                && !method.starts_with("$/")
                && !self.script.extensions.iter().any(is_extension)
            {
                step.event(Unrecognized::new(Some(method.to_owned()), params));
            }
            return;
        }
        // Ignore messages that a session repeats while it is loaded, because they belong to earlier turns.
        let named = params.get("sessionId").and_then(Value::as_str);
        if named.is_none() || named != self.session.as_deref() {
            return;
        }
        let mut update = params.get_mut("update").map(Value::take).unwrap_or_default();
        let kind = update["sessionUpdate"].as_str().unwrap_or_default().to_owned();
        if self.stage == Stage::Opening {
            if kind == "usage_update" {
                self.cost(&update, step);
            }
            return;
        }
        let understood = match kind.as_str() {
            "agent_message_chunk" => self.chunk(take(&mut update), false, step),
            "agent_thought_chunk" => self.chunk(take(&mut update), true, step),
            // Messages may have no ids, so a call also ends the message before it.
            "tool_call" | "tool_call_update" => take::<ToolCallUpdate>(&mut update).map(|call| {
                self.end_message(step);
                self.calls.update(call, &mut step.events);
            }),
            "usage_update" => {
                self.usage_updated(&update, step);
                Some(())
            }
            "current_mode_update" => {
                self.mode_changed(update["currentModeId"].as_str().unwrap_or_default(), step);
                Some(())
            }
            // Only for display; the turn does not depend on them.
            "plan" | "plan_update" | "plan_removed" | "notice" => {
                step.event(Unrecognized::new(Some(kind.clone()), update.clone()).harmless());
                Some(())
            }
            "user_message_chunk"
            | "available_commands_update"
            | "config_option_update"
            | "session_info_update"
            | "compaction_update"
            | "compaction_summary_chunk" => Some(()),
            _ => None,
        };
        if understood.is_none() {
            step.event(Unrecognized::new(Some(kind), update));
        }
    }

    /// Handles a piece of the model's text or thinking.
    fn chunk(&mut self, chunk: Option<ContentChunk>, is_thought: bool, step: &mut Step) -> Option<()> {
        let chunk = chunk?;
        let text = match chunk.content {
            ContentBlock::Text(text) => text.text,
            other => {
                let raw = serde_json::to_value(other).unwrap_or_default();
                step.event(
                    Unrecognized::new(Some("a content block that is not text".to_owned()), raw).harmless(),
                );
                return Some(());
            }
        };
        let vendor_id = chunk.message_id.map(|id| id.to_string());
        let is_other = self.message.as_ref().is_some_and(|message| message.vendor_id != vendor_id);
        if is_other {
            self.end_message(step);
        }
        let number = self.messages;
        let prefix = &self.script.prefix;
        let message = self.message.get_or_insert_with(|| OpenMessage {
            id: MessageId::new(format!("{prefix}m{number}")),
            vendor_id,
            text: String::new(),
        });
        let name = if is_thought { "thought" } else { "text" };
        let text = self.halves.delta(name, text.into(), mem::take(&mut self.line_halves)).into_owned();
        if text.is_empty() {
            return Some(());
        }
        if is_thought {
            step.event(ThinkingDelta::new(message.id.clone(), text));
        } else {
            message.text.push_str(&text);
            self.said.push_str(&text);
            step.event(TextDelta::new(message.id.clone(), text));
        }
        Some(())
    }

    fn end_message(&mut self, step: &mut Step) {
        if let Some(mut message) = self.message.take() {
            self.messages += 1;
            if let Some(half) = self.halves.finish("text") {
                message.text.push(half);
                self.said.push(half);
                step.event(TextDelta::new(message.id.clone(), half));
            }
            self.halves = HalfJoiner::default();
            if !message.text.is_empty() {
                step.event(MessageEnded::new(message.id, message.text));
            }
        }
    }

    /// Fails the turn if the session leaves the mode that enforces the access level.
    fn mode_changed(&mut self, mode: &str, step: &mut Step) {
        if let Some(own) = self.script.mode
            && own != mode
            && self.stage == Stage::Prompted
        {
            let reason = format!(
                "the agent switched from the mode {own:?}, which enforces the access level, to \
                    {mode:?}"
            );
            step.failed_and_stops(Failure::new(ErrorKind::Unsupported, reason));
        }
    }

    /// Handles a request of the agent.
    fn request(&mut self, id: Value, method: &str, params: Value, flaw: Option<&str>, step: &mut Step) {
        if method == "session/request_permission" {
            if let Ok(request) = serde_json::from_value::<RequestPermissionRequest>(params.clone()) {
                return self.permission(id, request, flaw, step);
            }
            write(
                step,
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32602, "message": "it cannot be read" } }),
            );
            return step.event(Unrecognized::new(Some(method.to_owned()), params));
        }
        if method == "elicitation/create" {
            return self.elicit(id, params, step);
        }
        // Reject the request, because neither files nor terminals were offered. One agent requests a write anyway,
        // after it has written the file itself.
        let answer = json!({ "code": -32601, "message": "this was not offered" });
        write(step, &json!({ "jsonrpc": "2.0", "id": id, "error": answer }));
        let is_extension = |prefix: &String| method.starts_with(prefix.as_str());
        let is_known = ["fs/", "terminal/", "_"].iter().any(|prefix| method.starts_with(prefix))
            || self.script.extensions.iter().any(is_extension);
        if !is_known {
            step.event(Unrecognized::new(Some(method.to_owned()), params).harmless());
        }
    }

    fn permission(
        &mut self,
        id: Value,
        request: RequestPermissionRequest,
        flaw: Option<&str>,
        step: &mut Step,
    ) {
        self.end_message(step);
        let call = self.calls.asked(request.tool_call.clone(), &mut step.events);
        if let Some(flaw) = flaw {
            step.event(TurnEvent::warning(format!(
                "{} was refused: the permission request has unreliable JSON: {flaw}",
                call.tool
            )));
        }
        let said = match () {
            () if self.is_stopping || call.changes_mode || flaw.is_some() => Permission::No,
            // The session decides about the call when it arrives there.
            () if call.is_callers => Permission::Yes,
            () => self.script.permissions.of_call(call.action, &call.paths),
        };
        match said {
            Permission::Yes => self.decide(&OpenPermission { id, request }, true, call.is_callers, step),
            Permission::No => self.decide(&OpenPermission { id, request }, false, false, step),
            Permission::Ask => {
                let question = self.next_question;
                self.next_question += 1;
                let asked = ApprovalRequest::of_harness(call.tool, call.action, call.input)
                    .with_title(call.title)
                    .with_paths(call.paths);
                step.ask(question, asked);
                self.permissions.insert(question, OpenPermission { id, request });
            }
        }
    }

    fn decide(&mut self, question: &OpenPermission, is_allowed: bool, may_last: bool, step: &mut Step) {
        let OpenPermission { id, request } = question;
        // Only calls of the caller's tools get a lasting permission, because the session still decides about each of
        // them.
        let chosen = option(&request.options, is_allowed, may_last);
        if !is_allowed || chosen.is_none() {
            self.has_refused = true;
            self.calls.deny(&request.tool_call.tool_call_id.to_string());
        }
        let outcome = match chosen {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            // The agent offered no fitting option. `cancelled` needs none, and never permits the call.
            None => json!({ "outcome": "cancelled" }),
        };
        write(step, &json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": outcome } }));
    }
}

impl Translator for AcpTranslator {
    fn open(&mut self, step: &mut Step) {
        let mut capabilities =
            json!({ "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false });
        if self.script.login.is_of_person() {
            capabilities["auth"] = json!({ "terminal": true });
            capabilities["_meta"] = json!({ TERMINAL_AUTH: true });
        }
        if self.script.takes_questions {
            capabilities["elicitation"] = json!({ "form": {}, "url": {} });
        }
        let params = json!({
            "protocolVersion": PROTOCOL,
            "clientCapabilities": capabilities,
            "clientInfo": { "name": "nexus", "title": "Nexus", "version": env!("CARGO_PKG_VERSION") },
        });
        self.ask(Asked::Initialize, "initialize", &params, step);
    }

    fn read_line(&mut self, output: OutputLine<'_>, step: &mut Step) -> bool {
        let line = output.bytes;
        let Ok(message) = output.read::<Line>() else { return false };
        self.line_halves = output.halves();
        match message {
            Line { id: Some(id), method: Some(method), params, .. } => {
                let is_permission = method == "session/request_permission";
                let flaw = if is_permission { output.flaw() } else { None };
                self.request(id, &method, params, flaw.as_deref(), step);
            }
            Line { method: Some(method), params, .. } => self.notification(&method, params, step),
            Line { id: Some(id), result, error, .. } => {
                let Some(asked) = id.as_u64().and_then(|id| self.asked.remove(&id)) else {
                    step.event(Unrecognized::of_line(Some("an answer to nothing".to_owned()), line));
                    return true;
                };
                let result = match error {
                    Some(error) => Err(error),
                    None => Ok(result.unwrap_or_default()),
                };
                self.answer(asked, result, step);
            }
            _ => step.event(Unrecognized::of_line(None, line)),
        }
        true
    }

    fn unreadable(&mut self, beginning: &[u8], step: &mut Step) {
        let has = |words: &[u8]| memchr::memmem::find(beginning, words).is_some();
        let id = lenient_json::request_id(beginning);
        // The line cannot be parsed, so recognise its kind by words in it.
        if has(b"\"agent_message_chunk\"") {
            self.has_lost_chunk = true;
            step.event(TurnEvent::warning("a part of the answer could not be read"));
        } else if let Some(id) = id.as_ref().filter(|_| has(b"\"method\"")) {
            let error = json!({ "code": -32700, "message": "the request is not JSON" });
            write(step, &json!({ "jsonrpc": "2.0", "id": id, "error": error }));
        } else if let Some(asked) = id.and_then(|id| self.asked.remove(&id.as_u64()?)) {
            if asked == Asked::Prompt {
                self.prompt_ended(step);
            }
            let reason = "an answer of the agent cannot be read";
            step.failed_and_stops(Failure::new(ErrorKind::Protocol, reason));
        }
    }

    fn approved(&mut self, question: u64, answer: Result<(), Denial>, step: &mut Step) {
        if let Some(question) = self.permissions.remove(&question) {
            self.decide(&question, answer.is_ok(), false, step);
        }
    }

    fn replied(&mut self, question: u64, answer: QuestionReply, step: &mut Step) {
        self.question_answered(question, &answer, step);
    }

    fn closing(&mut self, step: &mut Step) -> bool {
        self.end_session(step)
    }

    fn tools_changed(&mut self, step: &mut Step) {
        if self.stage == Stage::Connecting {
            self.prepare(step);
        }
    }

    fn look(&mut self, _: &dyn Fn() -> String, step: &mut Step) {
        if self.stage != Stage::Connecting {
            return;
        }
        self.prepare(step);
        self.looks += 1;
        if self.stage == Stage::Connecting && self.looks >= TOOLS_PATIENCE {
            let reason = "the agent did not list the caller's tools";
            step.failed_and_stops(Failure::new(ErrorKind::ToolsUnavailable, reason));
        }
    }

    fn interrupt(&mut self, step: &mut Step) -> StopRequest {
        self.is_stopping = true;
        // `session/cancel` applies only to a running prompt.
        if self.stage != Stage::Prompted {
            step.close_stdin = true;
            return StopRequest::Signals;
        }
        let params = json!({ "sessionId": self.session });
        write(step, &json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": params }));
        // Answer open permission requests, because some agents wait for them before they stop.
        for (_, question) in mem::take(&mut self.permissions) {
            self.calls.deny(&question.request.tool_call.tool_call_id.to_string());
            let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
            write(step, &json!({ "jsonrpc": "2.0", "id": question.id, "result": cancelled }));
        }
        self.cancel_questions(step);
        StopRequest::Written
    }

    fn repair(&mut self, instruction: &str, step: &mut Step) -> Repair {
        self.prompt(&[json!({ "type": "text", "text": instruction })], step);
        Repair::SameProcess
    }

    fn phase(&self) -> Phase {
        match self.stage {
            Stage::Opening | Stage::Connecting => Phase::Start,
            Stage::Prompted if self.calls.are_open() => Phase::Tool,
            Stage::Prompted if self.message.is_some() => Phase::Model,
            Stage::Prompted | Stage::Answered => Phase::FirstByte,
        }
    }

    fn exit_grace(&self) -> Duration {
        self.script.exit
    }

    fn ended(&mut self, _: &ProcessEnd<'_>, step: &mut Step) {
        self.end_message(step);
    }
}

/// Parses a response that the turn requires, and fails the turn otherwise.
fn read<T: DeserializeOwned>(result: Value, method: &str, step: &mut Step) -> Option<T> {
    match serde_json::from_value(result) {
        Ok(read) => Some(read),
        Err(error) => {
            let reason = format!("the answer to {method} cannot be read");
            step.failed_and_stops(Failure::new(ErrorKind::Protocol, reason).with_source(error));
            None
        }
    }
}

/// Parses a part of a notification. The value stays unchanged if it cannot be parsed.
fn take<T: DeserializeOwned>(value: &mut Value) -> Option<T> {
    T::deserialize(&*value).ok()
}

fn write(step: &mut Step, message: &Value) {
    let mut line = message.to_string();
    line.push('\n');
    step.write(line);
}

/// Returns the usage of a prompt from the report in its answer. `before` is the report of the prompt before it in the session.
///
/// The protocol names the report the usage "for this turn", and its counts the totals "across all turns". Agents do one or the
/// other, so counts that are not smaller are totals. Source: `PromptResponse` and `Usage` in `v1/agent.rs` of
/// agent-client-protocol-schema.
fn usage_of_prompt(report: &Usage, before: &Usage) -> Usage {
    let pairs = [
        (report.input_tokens, before.input_tokens),
        (report.cache_read_tokens, before.cache_read_tokens),
        (report.cache_write_tokens, before.cache_write_tokens),
        (report.output_tokens, before.output_tokens),
        (report.reasoning_tokens, before.reasoning_tokens),
    ];
    let is_total = pairs.iter().all(|(now, before)| now.unwrap_or(0) >= before.unwrap_or(0));
    if is_total { difference(report, before) } else { *report }
}
