//! Conversion of a turn's events to updates of its session.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, ImageContent, MessageId as ChunkId, NoticeSeverity, SessionUpdate, ToolCall,
    ToolCallContent, ToolCallId, ToolCallLocation, ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
    ToolKind, UsageUpdate,
};
use nexus_core::{
    Effects, EventEnvelope, EventSink, FinishReason, MessageId, ToolContent, TurnEvent,
    turn::{
        ContextUsage, MessageEnded, MessageVoided, RateLimitStatus, ToolCallArguments, ToolCallFinished,
        ToolCallStarted, ToolCallStatus as Ended,
    },
};
use nexus_mcp::client::cut_text;
use serde_json::{Value, json};

use crate::{
    calls::OpenCalls,
    client_text::harmless,
    diff::Files,
    outgoing::{TURN_WAITS_BYTES, lock},
    question::EditorQuestions,
    session_client::SessionClient,
    tool_calls::{call_title, kind, paths},
};

/// Maximum size of a shown output, in bytes. Source: our own bound.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

/// Receives the events of a turn, and sends updates to the client.
#[derive(Debug)]
pub(crate) struct Updates {
    client: SessionClient,
    prefix: String,
    cwd: PathBuf,
    calls: Arc<Mutex<OpenCalls>>,
    files: Arc<Files>,
    questions: EditorQuestions,
    /// Text of each unfinished message that was already sent.
    said: HashMap<MessageId, String>,
    /// Ended messages of which the client was shown a part.
    ended: HashSet<MessageId>,
    /// Finish reason of the last message, if known.
    pub(crate) finish: Option<FinishReason>,
}

impl Updates {
    /// Creates the updates of a turn whose ids all begin with `prefix`.
    pub(crate) fn new(
        client: SessionClient,
        prefix: String,
        cwd: PathBuf,
        calls: Arc<Mutex<OpenCalls>>,
        files: Arc<Files>,
        questions: EditorQuestions,
    ) -> Self {
        Self {
            client,
            prefix,
            cwd,
            calls,
            files,
            questions,
            said: HashMap::new(),
            ended: HashSet::new(),
            finish: None,
        }
    }

    /// Ends the updates of a turn: calls without an end become failed.
    pub(crate) fn end(&mut self) {
        for id in lock(&self.calls).end_all() {
            self.change(id, ToolCallUpdateFields::new().status(ToolCallStatus::Failed));
        }
    }

    fn chunk(&self, message: &MessageId, text: &str, is_thinking: bool) {
        let text = harmless(text);
        if text.is_empty() {
            return;
        }
        // Clients join chunks with the same id, so a thought needs its own.
        let part = if is_thinking { "-thinking" } else { "" };
        let id = format!("{}-{message}{part}", self.prefix);
        let chunk = ContentChunk::new(ContentBlock::from(text)).message_id(ChunkId::new(id));
        self.client.update(match is_thinking {
            true => SessionUpdate::AgentThoughtChunk(chunk),
            false => SessionUpdate::AgentMessageChunk(chunk),
        });
    }

    fn change(&self, id: ToolCallId, fields: ToolCallUpdateFields) {
        self.client.update(SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)));
    }

    fn take(&mut self, event: &TurnEvent) {
        match event {
            // A sub-agent's text is not part of the answer: its result is the output of its call.
            TurnEvent::TextDelta(delta) if delta.parent.is_none() => {
                self.said.entry(delta.message.clone()).or_default().push_str(&delta.text);
                self.chunk(&delta.message, &delta.text, false);
            }
            TurnEvent::ThinkingDelta(delta) if delta.parent.is_none() => {
                self.chunk(&delta.message, &delta.text, true);
            }
            TurnEvent::MessageEnded(ended) if ended.parent.is_none() => self.message_ended(ended),
            TurnEvent::MessageVoided(voided) => self.message_voided(voided),
            TurnEvent::ContextUsage(context) => self.context_used(*context),
            TurnEvent::QuestionCompleted(completed) => self.questions.completed(&completed.question),
            TurnEvent::ToolCallStarted(started) => self.call_started(started),
            TurnEvent::ToolCallArguments(arguments) => self.call_arguments(arguments),
            TurnEvent::ToolCallFinished(finished) => self.call_finished(finished),
            event => self.told_beside(event),
        }
    }

    /// Sends the fill of the context. The protocol requires its size. The cost is left out: the protocol has the cost of the
    /// session, but a turn has only its own.
    fn context_used(&self, context: ContextUsage) {
        if let Some(window) = context.window_tokens {
            self.client.update(SessionUpdate::UsageUpdate(UsageUpdate::new(context.used_tokens, window)));
        }
    }

    /// Sends the rest of a message. Deltas are missing if a backend sends none, or if the queue was full.
    fn message_ended(&mut self, ended: &MessageEnded) {
        let said = self.said.remove(&ended.message).unwrap_or_default();
        match ended.text.strip_prefix(&said) {
            Some(rest) => self.chunk(&ended.message, rest, false),
            None => {
                let text = "parts of the message above are missing; the complete message follows";
                self.client.notice(NoticeSeverity::Info, text, json!({ "missing": true }));
                // A new id, because the client would append the text to the incomplete message.
                self.chunk(&MessageId::new(format!("{}-whole", ended.message)), &ended.text, false);
            }
        }
        // A message that was never shown needs no notice when it becomes void.
        if !ended.text.is_empty() || !said.is_empty() {
            self.ended.insert(ended.message.clone());
        }
        self.finish.clone_from(&ended.finish);
    }

    /// Sends a notice about a void message, because a shown message cannot be withdrawn.
    fn message_voided(&mut self, voided: &MessageVoided) {
        let was_open = self.said.remove(&voided.message).is_some_and(|said| !said.is_empty());
        if self.ended.remove(&voided.message) || was_open {
            let text = "ignore the message above: it was interrupted, or the model writes it again";
            let id = format!("{}-{}", self.prefix, voided.message);
            self.client.notice(NoticeSeverity::Info, text, json!({ "voidedMessageId": id }));
        }
    }

    fn call_started(&mut self, started: &ToolCallStarted) {
        let (id, is_known) = lock(&self.calls).begin(&started.call, &started.name, started.effects);
        if !is_known {
            let call = ToolCall::new(id, call_title(&started.name, None))
                .kind(kind(&started.name, Some(started.effects)))
                .status(ToolCallStatus::Pending);
            self.client.update(SessionUpdate::ToolCall(call));
        }
    }

    fn call_arguments(&mut self, arguments: &ToolCallArguments) {
        let mut calls = lock(&self.calls);
        let Some(call) = calls.find(&arguments.call) else { return };
        let paths = paths(&self.cwd, &arguments.arguments);
        if may_write(call.effects, kind(&call.name, Some(call.effects))) {
            // The diff at the end of the call needs the content from before it.
            call.before = paths.iter().map(|path| (path.clone(), self.files.look(path))).collect();
        }
        call.arguments = Some(arguments.arguments.clone());
        let (id, title) = (call.id.clone(), call_title(&call.name, call.arguments.as_ref()));
        drop(calls);
        let fields = ToolCallUpdateFields::new()
            .title(title)
            .status(ToolCallStatus::InProgress)
            .locations(locations(&paths))
            .raw_input(arguments.arguments.clone());
        self.change(id, fields);
    }

    fn call_finished(&mut self, finished: &ToolCallFinished) {
        let Some(call) = lock(&self.calls).end(&finished.call) else { return };
        let is_done = finished.status == Ended::Succeeded;
        let diffs = call.before.iter().filter(|_| is_done);
        let mut content: Vec<ToolCallContent> =
            diffs.filter_map(|(path, before)| self.files.changed(path, before)).collect();
        content.extend(finished.output.iter().filter_map(shown));
        let status = if is_done { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let mut fields = ToolCallUpdateFields::new().status(status);
        if !content.is_empty() {
            fields = fields.content(content);
        }
        if let [ToolContent::Json { value }] = finished.output.as_slice() {
            fields = fields.raw_output(value.clone());
        }
        self.change(call.id, fields);
    }

    /// Reports events to the user that are not part of the answer.
    fn told_beside(&self, event: &TurnEvent) {
        let (severity, text, data) = match event {
            TurnEvent::Queued(queued) => (
                NoticeSeverity::Info,
                format!("{} already runs {} turns: this turn waits", queued.backend, queued.limit),
                json!({ "queued": queued.backend }),
            ),
            TurnEvent::Waiting(waiting) => {
                let backends: Vec<_> = waiting.held.iter().map(|held| held.backend.as_str()).collect();
                let until = nexus_files::rfc3339::seconds(waiting.until);
                (
                    NoticeSeverity::Info,
                    format!("{} refused the turn: it waits until {until}", backends.join(", ")),
                    json!({ "waiting": { "until": until, "backends": backends } }),
                )
            }
            TurnEvent::RateLimit(limit) if limit.status != RateLimitStatus::Allowed => {
                let window = limit.window.as_deref().map(|window| format!(" ({window})")).unwrap_or_default();
                let used = limit.used_percent.map(|used| format!(", {used:.0} % used")).unwrap_or_default();
                (
                    NoticeSeverity::Warning,
                    format!("the vendor's limit{window} is near{used}"),
                    json!({ "rateLimit": limit }),
                )
            }
            TurnEvent::Retrying(retrying) => (
                NoticeSeverity::Info,
                format!("attempt {}: {}", retrying.attempt, retrying.reason),
                json!({ "retrying": retrying }),
            ),
            TurnEvent::Fallback(fallback) => (
                NoticeSeverity::Warning,
                format!(
                    "{} could not run ({}): {} takes over",
                    fallback.skipped.backend, fallback.skipped.reason, fallback.to
                ),
                json!({ "fallback": { "from": fallback.skipped.backend, "to": fallback.to, "kind": fallback.skipped.kind } }),
            ),
            TurnEvent::Warning(warning) => {
                (NoticeSeverity::Warning, warning.text.clone(), json!({ "warning": true }))
            }
            _ => return,
        };
        self.client.notice(severity, &text, data);
    }
}

impl EventSink for Updates {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.client.out.poll_below(TURN_WAITS_BYTES, context)
    }

    fn accept(&mut self, envelope: EventEnvelope) {
        self.take(&envelope.event);
    }
}

/// Returns true if the call may have changed the files that it names.
fn may_write(effects: Effects, kind: ToolKind) -> bool {
    !effects.allow_another_try() || matches!(kind, ToolKind::Edit | ToolKind::Delete | ToolKind::Move)
}

pub(crate) fn locations(paths: &[PathBuf]) -> Vec<ToolCallLocation> {
    paths.iter().map(ToolCallLocation::new).collect()
}

/// Returns the output of a call for display.
fn shown(content: &ToolContent) -> Option<ToolCallContent> {
    match content {
        ToolContent::Text { text } => output_text(text),
        ToolContent::Json { value } => output_text(&value.to_string()),
        ToolContent::Image { media_type, data } => {
            Some(ContentBlock::Image(ImageContent::new(data.clone(), media_type.clone())).into())
        }
        _ => None,
    }
}

pub(crate) fn output_text(text: &str) -> Option<ToolCallContent> {
    let text = cut_text(&harmless(text), MAX_OUTPUT_BYTES);
    (!text.trim().is_empty()).then(|| ContentBlock::from(text).into())
}

/// Returns stored arguments: as JSON, or as text if they are malformed.
pub(crate) fn raw_input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::String(arguments.to_owned()))
}
