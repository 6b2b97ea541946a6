//! The tracing spans of a turn's model calls and tool calls, created from its events.
//!
//! Every backend has the same tree, with loops of both kinds: `invoke_agent` > `chat`, one per model call >
//! `execute_tool`, the calls of its reply. A sub-agent's `chat` is a child of the call that started it. Source
//! of names, kinds and attributes: OpenTelemetry semantic conventions for generative AI, version 1.41 (status:
//! development).

use std::collections::HashMap;

use tracing::{Span, field::Empty};

use super::turn_span::{TurnSpan, record_error, record_usage};
use crate::{
    ErrorKind, FinishReason, ModelId, TurnEvent, TurnResult, Usage,
    id::CallId,
    turn::{Provenance, Retrying, ToolCallFinished, ToolCallStarted, ToolCallStatus, ToolOrigin},
};

/// Longest name in a span, in bytes. Source: our own bound, above any plausible name.
const MAX_ATTRIBUTE_BYTES: usize = 256;

/// A completed model call that the vendor reports outside of messages: see [`TurnLog::model_call_ended`].
///
/// [`TurnLog::model_call_ended`]: super::TurnLog::model_call_ended
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelCall {
    /// The tool call that started the sub-agent which made the model call. `None` for the turn's own agent.
    pub parent: Option<CallId>,
    /// Usage of the call.
    pub usage: Option<Usage>,
    /// Reason why the model stopped.
    pub finish: Option<FinishReason>,
}

impl ModelCall {
    /// Creates a model call of the turn's own agent.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the tool call whose sub-agent made the model call.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<CallId>) -> Self {
        self.parent = parent;
        self
    }

    /// Sets the usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    /// Sets the stop reason.
    #[must_use]
    pub fn with_finish(mut self, finish: Option<FinishReason>) -> Self {
        self.finish = finish;
        self
    }
}

/// The open spans of one turn.
#[derive(Debug)]
pub(super) struct TurnTrace {
    turn: TurnSpan,
    agents: HashMap<Option<CallId>, AgentSpans>,
    tools: HashMap<CallId, CallSpan>,
    /// True if model calls are inferred from events. A native loop reports them itself.
    infers: bool,
    /// The answering model, if known, and the conversation.
    model: Option<ModelId>,
    conversation: Option<String>,
    is_over: bool,
}

/// Spans of one agent: the turn's own or a sub-agent.
#[derive(Debug, Default)]
struct AgentSpans {
    chat: Option<Span>,
    /// The last model call that ended. Tool calls of its reply may be reported later.
    last: Option<Span>,
    running: usize,
    /// True if the agent called tools since the last model call. The next model call sends their results.
    has_called: bool,
}

/// Span of one tool call, and the sub-agent that made the call.
#[derive(Debug)]
struct CallSpan {
    span: Span,
    agent: Option<CallId>,
}

impl TurnTrace {
    pub(super) fn new(turn: TurnSpan) -> Self {
        Self {
            turn,
            agents: HashMap::new(),
            tools: HashMap::new(),
            infers: false,
            model: None,
            conversation: None,
            is_over: false,
        }
    }

    pub(super) fn infer_model_calls(&mut self) {
        self.infers = true;
    }

    /// Records the vendor's name of the conversation.
    pub(super) fn conversation(&mut self, id: &str) {
        if self.conversation.as_deref() == Some(id) {
            return;
        }
        let id = brief(id);
        self.conversation = Some(id.to_owned());
        // The name may arrive during a model call, so the open spans get it too.
        let chats = self.agents.values().filter_map(|agent| agent.chat.as_ref());
        for span in chats.chain([&self.turn.span]) {
            span.record("gen_ai.conversation.id", id);
        }
    }

    /// Records the answering model.
    pub(super) fn model(&mut self, model: Option<&ModelId>) {
        if self.model.as_ref() != model {
            self.model = model.cloned();
        }
    }

    /// Begins a model call of the turn's own agent. If model calls are inferred, a running call is this call.
    pub(super) fn model_asked(&mut self) {
        if !self.infers {
            self.end_chat(None, None, None);
        }
        self.open_chat(None);
    }

    /// Records that a model call of the turn's own agent failed.
    pub(super) fn model_failed(&mut self, kind: ErrorKind) {
        if let Some(chat) = self.agents.get(&None).and_then(|agent| agent.chat.as_ref()) {
            record_error(chat, kind);
        }
        self.end_chat(None, None, None);
    }

    pub(super) fn model_call_ended(&mut self, call: &ModelCall) {
        // A reply that consists of tool calls has no delta that opened its span.
        if self.infers {
            self.open_chat(call.parent.as_ref());
        }
        self.end_chat(call.parent.as_ref(), call.usage.as_ref(), call.finish.as_ref());
        self.ask_again(call.parent.as_ref());
    }

    /// Returns the span of a running tool call.
    pub(super) fn tool(&self, call: &CallId) -> Option<&Span> {
        self.tools.get(call).map(|tool| &tool.span)
    }

    pub(super) fn observe(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::TextDelta(delta) if self.infers => self.open_chat(delta.parent.as_ref()),
            TurnEvent::ThinkingDelta(delta) if self.infers => self.open_chat(delta.parent.as_ref()),
            TurnEvent::MessageEnded(ended) if ended.usage.is_some() || ended.finish.is_some() => {
                if self.infers {
                    self.open_chat(ended.parent.as_ref());
                }
                self.end_chat(ended.parent.as_ref(), ended.usage.as_ref(), ended.finish.as_ref());
                self.ask_again(ended.parent.as_ref());
            }
            TurnEvent::Retrying(retrying) if self.infers => self.retrying(retrying),
            TurnEvent::ToolCallStarted(started) => self.tool_started(started),
            TurnEvent::ToolCallFinished(finished) => self.tool_finished(finished),
            _ => {}
        }
    }

    fn retrying(&mut self, retrying: &Retrying) {
        self.model_failed(retrying.kind.unwrap_or(ErrorKind::VendorFailure));
        self.open_chat(None);
    }

    fn tool_started(&mut self, started: &ToolCallStarted) {
        let parent = started.parent.clone();
        let agent = self.agents.entry(parent.clone()).or_default();
        agent.running += 1;
        agent.has_called = true;
        // The vendor may report a tool call during the reply or after it. Its parent is the reply's model call.
        let asked_by = agent.chat.as_ref().or(agent.last.as_ref()).unwrap_or(&self.turn.span);
        let kind = match started.origin {
            ToolOrigin::Caller => "function",
            _ => "extension",
        };
        let span = tracing::info_span!(
            parent: asked_by,
            "execute_tool",
            otel.name = format!("execute_tool {}", brief(&started.name)),
            otel.kind = "internal",
            otel.status_code = Empty,
            gen_ai.operation.name = "execute_tool",
            gen_ai.tool.name = brief(&started.name),
            gen_ai.tool.type = kind,
            gen_ai.tool.call.id = brief(started.call.as_str()),
            error.type = Empty,
        );
        self.tools.insert(started.call.clone(), CallSpan { span, agent: parent });
    }

    fn tool_finished(&mut self, finished: &ToolCallFinished) {
        let Some(CallSpan { span, agent }) = self.tools.remove(&finished.call) else { return };
        if finished.status != ToolCallStatus::Succeeded {
            record_error(&span, finished.status);
        }
        end(&span);
        // The sub-agent that this call started has ended.
        let sub = Some(finished.call.clone());
        if self.agents.contains_key(&sub) {
            self.end_chat(sub.as_ref(), None, None);
            self.agents.remove(&sub);
        }
        if let Some(known) = self.agents.get_mut(&agent) {
            // The entry of a sub-agent may have been removed and created again while its call ran.
            known.running = known.running.saturating_sub(1);
        }
        self.ask_again(agent.as_ref());
    }

    /// Starts the next model call of an agent, after the answers to all tool calls of a reply.
    fn ask_again(&mut self, agent: Option<&CallId>) {
        let is_answered = |agent: &AgentSpans| agent.chat.is_none() && agent.running == 0 && agent.has_called;
        if self.infers && self.agents.get(&agent.cloned()).is_some_and(is_answered) {
            self.open_chat(agent);
        }
    }

    fn open_chat(&mut self, agent: Option<&CallId>) {
        let is_open = |agent: &AgentSpans| agent.chat.is_some();
        let key = agent.cloned();
        if self.agents.get(&key).is_some_and(is_open) {
            return;
        }
        // A sub-agent's model calls are children of the tool call that started it.
        let below = agent.and_then(|call| self.tool(call)).unwrap_or(&self.turn.span);
        // The known model is that of the turn's own agent; a sub-agent may use another one.
        let model = self.turn.model.as_ref().or(self.model.as_ref()).filter(|_| agent.is_none());
        let span = tracing::info_span!(
            parent: below,
            "chat",
            otel.name = model.map_or_else(|| "chat".to_owned(), |model| format!("chat {}", brief(model.as_str()))),
            otel.kind = "client",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = self.turn.provider,
            gen_ai.conversation.id = self.conversation,
            gen_ai.request.model = model.map(|model| brief(model.as_str())),
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            error.type = Empty,
        );
        let known = self.agents.entry(key).or_default();
        known.chat = Some(span);
        known.has_called = false;
    }

    fn end_chat(&mut self, agent: Option<&CallId>, usage: Option<&Usage>, finish: Option<&FinishReason>) {
        let model = self.model.as_ref().filter(|_| agent.is_none());
        let Some(known) = self.agents.get_mut(&agent.cloned()) else { return };
        let Some(chat) = known.chat.take() else { return };
        if let Some(usage) = usage {
            record_usage(&chat, usage);
        }
        if let Some(finish) = finish {
            chat.record("gen_ai.response.finish_reasons", reason(finish));
        }
        if let Some(model) = model {
            chat.record("gen_ai.response.model", brief(model.as_str()));
        }
        end(&chat);
        known.last = Some(chat);
    }

    /// Records that the turn succeeded.
    pub(super) fn answered(&mut self, result: &TurnResult) {
        self.turn.span.record("gen_ai.response.finish_reasons", reason(&result.finish));
        self.end(&result.provenance, &result.usage, None);
    }

    /// Records that the turn failed.
    pub(super) fn failed(&mut self, kind: ErrorKind, provenance: &Provenance, usage: &Usage) {
        record_error(&self.turn.span, kind);
        self.end(provenance, usage, Some(kind));
    }

    fn end(&mut self, provenance: &Provenance, usage: &Usage, error: Option<ErrorKind>) {
        let span = &self.turn.span;
        if let Some(model) = &provenance.model {
            span.record("gen_ai.response.model", brief(model.as_str()));
        }
        if let Some(version) = &provenance.version {
            span.record("gen_ai.agent.version", brief(version));
        }
        record_usage(span, usage);
        self.close(error);
    }

    /// Closes all open spans, with the error that ended the turn.
    fn close(&mut self, error: Option<ErrorKind>) {
        self.is_over = true;
        let tools = self.tools.values().map(|tool| (&tool.span, true));
        let chats = self.agents.values().filter_map(|agent| Some((agent.chat.as_ref()?, false)));
        for (span, is_tool) in tools.chain(chats) {
            match error {
                Some(kind) => record_error(span, kind),
                // A tool call without an end is a fault, even if the turn succeeded.
                None if is_tool => record_error(span, ToolCallStatus::Unfinished),
                None => {}
            }
            end(span);
        }
        self.tools.clear();
        self.agents.clear();
    }
}

impl Drop for TurnTrace {
    /// A turn whose future is dropped is cancelled.
    fn drop(&mut self) {
        if !self.is_over {
            record_error(&self.turn.span, ErrorKind::Cancelled);
            self.close(Some(ErrorKind::Cancelled));
        }
    }
}

/// Shortens a name from a vendor or a model for a span. A collector rejects requests that are too large, with all of
/// their spans.
fn brief(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_ATTRIBUTE_BYTES)]
}

/// Ends a span. A span with children is closed after them, and its end time is when it was last exited.
fn end(span: &Span) {
    span.in_scope(|| ());
}

/// Returns the stop reason for the attribute. The attribute is a list, which exporters build.
fn reason(finish: &FinishReason) -> String {
    brief(&finish.to_string()).replace(' ', "_")
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{Arc, Mutex},
    };

    use tracing::{
        Event, Metadata, Subscriber,
        field::{Field, Visit},
        span::{Attributes, Id, Record},
    };

    use super::*;
    use crate::{
        Capabilities, Effects, LoopMode, TurnRequest,
        turn::{MessageEnded, TextDelta},
    };

    /// Keeps the fields of every span, its parent's name among them.
    #[derive(Clone, Default)]
    struct Seen(Arc<Mutex<Vec<BTreeMap<String, String>>>>);

    struct Fields<'a>(&'a mut BTreeMap<String, String>);

    impl Visit for Fields<'_> {
        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name().to_owned(), value.to_owned());
        }

        fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
            self.0.insert(field.name().to_owned(), format!("{value:?}"));
        }
    }

    impl Subscriber for Seen {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            let mut seen = self.0.lock().unwrap();
            let mut fields = BTreeMap::new();
            if let Some(parent) = attributes.parent() {
                let parent = &seen[parent.into_u64() as usize - 1]["otel.name"];
                fields.insert("parent".to_owned(), parent.clone());
            }
            attributes.record(&mut Fields(&mut fields));
            seen.push(fields);
            Id::from_u64(seen.len() as u64)
        }

        fn record(&self, span: &Id, values: &Record<'_>) {
            values.record(&mut Fields(&mut self.0.lock().unwrap()[span.into_u64() as usize - 1]));
        }

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &Event<'_>) {}

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    /// The spans below that of the turn: name, parent, error.
    fn spans(turn: impl FnOnce(&mut TurnTrace)) -> Vec<(String, String, String)> {
        let seen = Seen::default();
        tracing::subscriber::with_default(seen.clone(), || {
            let mut request = TurnRequest::new("x");
            request.model = Some("m".into());
            let span = TurnSpan::new(&"b".into(), &Capabilities::new(LoopMode::Delegated), &request);
            let mut trace = TurnTrace::new(span);
            trace.infer_model_calls();
            turn(&mut trace);
        });
        let seen = seen.0.lock().unwrap();
        let field = |span: &BTreeMap<String, String>, name: &str| span.get(name).cloned().unwrap_or_default();
        let shown = seen
            .iter()
            .map(|span| (field(span, "otel.name"), field(span, "parent"), field(span, "error.type")));
        shown.skip(1).collect()
    }

    fn row(name: &str, parent: &str, error: &str) -> (String, String, String) {
        (name.to_owned(), parent.to_owned(), error.to_owned())
    }

    fn started(call: &str, parent: Option<&str>) -> TurnEvent {
        let started = ToolCallStarted::new(call.into(), call, ToolOrigin::Harness, Effects::None);
        started.with_parent(parent.map(CallId::from)).into()
    }

    fn finished(call: &str) -> TurnEvent {
        ToolCallFinished::new(call.into(), ToolCallStatus::Succeeded, Vec::new()).into()
    }

    fn ended() -> TurnEvent {
        MessageEnded::new("a".into(), "x").with_finish(Some(FinishReason::Stop)).into()
    }

    #[test]
    fn a_call_that_is_made_again_is_two_model_calls_and_the_first_failed() {
        let seen = spans(|trace| {
            trace.model_asked();
            trace.observe(&Retrying::new(2, "x").with_kind(Some(ErrorKind::Overloaded)).into());
            // A process that is started anew asks what was about to be asked.
            trace.model_asked();
            trace.observe(&ended());
            trace.close(None);
        });
        let chat = |error| row("chat m", "invoke_agent b", error);
        assert_eq!(seen, [chat("Overloaded"), chat("")]);
    }

    #[test]
    fn the_model_is_asked_again_once_all_calls_are_answered_whenever_its_reply_ends() {
        for reply_ends_first in [true, false] {
            let seen = spans(|trace| {
                trace.model_asked();
                trace.observe(&started("one", None));
                trace.observe(&started("two", None));
                if reply_ends_first {
                    trace.observe(&ended());
                }
                trace.observe(&finished("one"));
                trace.observe(&finished("two"));
                if !reply_ends_first {
                    trace.model_call_ended(&ModelCall::new());
                }
                trace.observe(&ended());
                trace.close(None);
            });
            let chat = row("chat m", "invoke_agent b", "");
            let tool = |name| row(name, "chat m", "");
            let tools = [tool("execute_tool one"), tool("execute_tool two")];
            assert_eq!(seen, [&[chat.clone()][..], &tools, &[chat]].concat());
        }
    }

    #[test]
    fn a_sub_agents_model_calls_stand_below_the_call_that_started_it() {
        let seen = spans(|trace| {
            trace.model_asked();
            trace.observe(&started("task", None));
            trace.observe(&TextDelta::new("s".into(), "x").with_parent(Some("task".into())).into());
            trace.observe(&started("look", Some("task")));
            trace.observe(&finished("look"));
            trace.observe(&finished("task"));
            trace.close(None);
        });
        let expected = [
            row("chat m", "invoke_agent b", ""),
            row("execute_tool task", "chat m", ""),
            row("chat", "execute_tool task", ""),
            row("execute_tool look", "chat", ""),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn names_that_are_too_long_are_cut() {
        let long = "x".repeat(1 << 20);
        let seen = spans(|trace| {
            trace.model_asked();
            trace.observe(&started(&long, None));
            trace.observe(&finished(&long));
            trace.close(None);
        });
        assert_eq!(seen[1].0, format!("execute_tool {}", &long[..MAX_ATTRIBUTE_BYTES]));
    }

    #[test]
    fn what_is_open_when_a_turn_is_dropped_is_cancelled() {
        let seen = spans(|trace| {
            trace.model_asked();
            trace.observe(&started("one", None));
        });
        let expected =
            [row("chat m", "invoke_agent b", "Cancelled"), row("execute_tool one", "chat m", "Cancelled")];
        assert_eq!(seen, expected);
    }
}
