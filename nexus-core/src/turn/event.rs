//! Events of a turn, as they happen.
//!
//! Every variant has a struct with a constructor. Backends outside of this workspace can create it, and a new
//! field breaks no code.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AppliedEffort, Effects, FinishReason, ToolCallStatus, ToolOrigin, Usage};
use crate::{
    error::{ErrorKind, Skipped},
    id::{BackendId, CallId, MessageId, ModelId},
    lenient_json::Repairs,
    tool::ToolContent,
};

/// An event with its position in the turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// Number of the event within one `run_turn`: from zero, without gaps, across retries and fallbacks.
    pub sequence: u64,
    /// Time since the turn was first polled.
    pub elapsed: Duration,
    /// The event.
    pub event: TurnEvent,
}

impl EventEnvelope {
    /// Creates an envelope. Backends use [`Outbox`](crate::Outbox), which numbers events itself.
    pub fn new(sequence: u64, elapsed: Duration, event: TurnEvent) -> Self {
        Self { sequence, elapsed, event }
    }
}

/// One thing that happened in a turn.
///
/// Deltas are only for display; the [`TurnResult`](super::TurnResult) is authoritative. A message that a retry
/// or a fallback replaces is withdrawn by [`TurnEvent::MessageVoided`] and is not in the result.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum TurnEvent {
    /// The turn waits for a permit, because the backend runs its maximum number of turns.
    Queued(Queued),
    /// The turn waits, because every backend that could run it refuses turns until a time.
    Waiting(WaitingForReset),
    /// A backend began the turn.
    Started(Started),
    /// A piece of text to append to a message.
    TextDelta(TextDelta),
    /// A piece of thinking to append to a message.
    ThinkingDelta(ThinkingDelta),
    /// The model called a tool.
    ToolCallStarted(ToolCallStarted),
    /// The arguments of a call are complete.
    ToolCallArguments(ToolCallArguments),
    /// A call was answered.
    ToolCallFinished(ToolCallFinished),
    /// Steering input was passed to the agent during the turn.
    InputReceived(InputReceived),
    /// Older parts of the conversation were dropped, so that the rest fits into the model's context.
    Compacted(ConversationCompacted),
    /// The vendor reported how full the model's context is.
    ContextUsage(ContextUsage),
    /// The person's action on a page of a question is complete.
    QuestionCompleted(QuestionCompleted),
    /// A message is complete.
    MessageEnded(MessageEnded),
    /// A message was withdrawn. Discard its deltas.
    MessageVoided(MessageVoided),
    /// The vendor reported the state of its limits.
    RateLimit(RateLimitNotification),
    /// The same backend repeats a request.
    Retrying(Retrying),
    /// Another backend takes over the turn.
    Fallback(Fallback),
    /// A message for the caller about a problem that does not end the turn.
    Warning(Warning),
    /// Data from the vendor that Nexus does not know, unchanged.
    Unrecognized(Unrecognized),
    /// Data from the vendor that was not valid JSON, and was read after a repair.
    Repaired(RepairedLine),
}

impl TurnEvent {
    /// Returns true if the event is only for display: the record of the turn is complete without it.
    pub fn is_display_only(&self) -> bool {
        matches!(self, Self::TextDelta(_) | Self::ThinkingDelta(_))
    }

    /// Creates a warning.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::Warning(Warning::new(text))
    }
}

macro_rules! into_event {
    ($($variant:ident($struct:ident)),* $(,)?) => {$(
        impl From<$struct> for TurnEvent {
            fn from(event: $struct) -> Self {
                Self::$variant(event)
            }
        }
    )*};
}

into_event! {
    Queued(Queued), Waiting(WaitingForReset), Started(Started), TextDelta(TextDelta), ThinkingDelta(ThinkingDelta),
    ToolCallStarted(ToolCallStarted), ToolCallArguments(ToolCallArguments),
    ToolCallFinished(ToolCallFinished), InputReceived(InputReceived), Compacted(ConversationCompacted),
    ContextUsage(ContextUsage), QuestionCompleted(QuestionCompleted), MessageEnded(MessageEnded), MessageVoided(MessageVoided),
    RateLimit(RateLimitNotification), Retrying(Retrying), Fallback(Fallback), Warning(Warning),
    Unrecognized(Unrecognized), Repaired(RepairedLine),
}

/// The turn waits for a permit to run on a backend.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Backend that the turn waits for.
    pub backend: BackendId,
    /// Limit on the backend's concurrent turns.
    pub limit: usize,
}

impl Queued {
    /// Creates the event of a turn that waits because `limit` turns run on the backend.
    pub fn new(backend: BackendId, limit: usize) -> Self {
        Self { backend, limit }
    }
}

/// The turn waits until a backend that refused turns takes them again. Only a turn whose host allows it waits
/// ([`TurnHost::with_longest_wait`](crate::TurnHost::with_longest_wait)). The event is repeated when the end of the wait changes.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingForReset {
    /// Time of the next attempt. A backend whose hold is released earlier is tried at once.
    pub until: SystemTime,
    /// The backends that the turn waits for, each with its refusal.
    pub held: Vec<Skipped>,
}

impl WaitingForReset {
    /// Creates the event of a turn that waits for these backends.
    pub fn new(until: SystemTime, held: Vec<Skipped>) -> Self {
        Self { until, held }
    }
}

/// A backend began the turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Name of the backend.
    pub backend: BackendId,
    /// The model, as the vendor named it, if it did.
    pub model: Option<ModelId>,
    /// The requested effort and the applied one, if the request has one.
    pub effort: Option<AppliedEffort>,
    /// The version of the program or service.
    pub version: Option<String>,
}

impl Started {
    /// Creates the event that `backend` began the turn.
    pub fn new(backend: BackendId) -> Self {
        Self { backend, model: None, effort: None, version: None }
    }

    /// Sets the model.
    #[must_use]
    pub fn with_model(mut self, model: Option<ModelId>) -> Self {
        self.model = model;
        self
    }

    /// Sets the effort.
    #[must_use]
    pub fn with_effort(mut self, effort: Option<AppliedEffort>) -> Self {
        self.effort = effort;
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn with_version(mut self, version: Option<String>) -> Self {
        self.version = version;
        self
    }
}

macro_rules! delta {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[non_exhaustive]
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            /// Message that the text belongs to.
            pub message: MessageId,
            /// Tool call that started the sub-agent which wrote the text. `None` for the turn's own agent.
            pub parent: Option<CallId>,
            /// Text to append. It is never the whole text so far.
            pub text: String,
        }

        impl $name {
            /// Creates a piece of a message of the turn's own agent.
            pub fn new(message: MessageId, text: impl Into<String>) -> Self {
                Self { message, parent: None, text: text.into() }
            }

            /// Sets the tool call whose sub-agent wrote the text.
            #[must_use]
            pub fn with_parent(mut self, parent: Option<CallId>) -> Self {
                self.parent = parent;
                self
            }
        }
    };
}

delta! {
    /// A piece of text.
    TextDelta
}
delta! {
    /// A piece of thinking.
    ThinkingDelta
}

/// The model called a tool.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallStarted {
    /// Id that links all events of one call.
    pub call: CallId,
    /// Tool call that started the sub-agent which made this call. `None` for the turn's own agent.
    pub parent: Option<CallId>,
    /// Name of the tool: the caller's name, or the harness's name for its own tool.
    pub name: String,
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// Possible effects of a call.
    pub effects: Effects,
}

impl ToolCallStarted {
    /// Creates a call by the turn's own agent.
    pub fn new(call: CallId, name: impl Into<String>, origin: ToolOrigin, effects: Effects) -> Self {
        Self { call, parent: None, name: name.into(), origin, effects }
    }

    /// Sets the tool call whose sub-agent made this call.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<CallId>) -> Self {
        self.parent = parent;
        self
    }
}

/// The arguments of a call are complete.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallArguments {
    /// Id of the call.
    pub call: CallId,
    /// The arguments, if the vendor shows them. Text that is not JSON is a JSON string.
    pub arguments: Value,
}

impl ToolCallArguments {
    /// Creates the event with the arguments of `call`.
    pub fn new(call: CallId, arguments: Value) -> Self {
        Self { call, arguments }
    }
}

/// A call was answered.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallFinished {
    /// Id of the call.
    pub call: CallId,
    /// Status of the call at its end.
    pub status: ToolCallStatus,
    /// Output of the call, as far as the vendor shows it.
    pub output: Vec<ToolContent>,
}

impl ToolCallFinished {
    /// Creates the end of `call`.
    pub fn new(call: CallId, status: ToolCallStatus, output: Vec<ToolContent>) -> Self {
        Self { call, status, output }
    }
}

/// Input by [`Steering`](crate::Steering) was passed to the agent during the turn. The next model request
/// contains it, after everything before this event.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceived {
    /// Text of the input, without the secrets of the turn.
    pub text: String,
}

impl InputReceived {
    /// Creates the event that the agent received `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Older parts of the conversation were dropped, so that the rest fits into the model's context. The model does not
/// see them in the rest of the turn, and in turns that resume the conversation.
///
/// A vendor's program that compacts its conversation itself does not state the numbers.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConversationCompacted {
    /// Number of results of tools that a short text replaces.
    pub results: Option<u64>,
    /// Number of messages, calls and results that were dropped.
    pub items: Option<u64>,
    /// Number of bytes by which the next request is smaller, without the summary.
    pub bytes: Option<u64>,
    /// True if a model that the configuration names summarized the dropped items for the turn's model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_summarized: bool,
}

impl ConversationCompacted {
    /// Creates the event without numbers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of results that a short text replaces.
    #[must_use]
    pub fn with_results(mut self, results: Option<u64>) -> Self {
        self.results = results;
        self
    }

    /// Sets the number of messages, calls and results that were dropped.
    #[must_use]
    pub fn with_items(mut self, items: Option<u64>) -> Self {
        self.items = items;
        self
    }

    /// Sets the number of bytes by which the next request is smaller.
    #[must_use]
    pub fn with_bytes(mut self, bytes: Option<u64>) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets whether a summary replaces the dropped items.
    #[must_use]
    pub fn with_summary(mut self, is_summarized: bool) -> Self {
        self.is_summarized = is_summarized;
        self
    }
}

/// Fill of the model's context: the conversation as the model last saw it. It is no count of billed tokens.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextUsage {
    /// Tokens in the context.
    pub used_tokens: u64,
    /// Size of the context in tokens, if it is known.
    pub window_tokens: Option<u64>,
}

impl ContextUsage {
    /// Creates the event. A window of 0 tokens is an unknown one.
    pub fn new(used_tokens: u64, window_tokens: Option<u64>) -> Self {
        Self { used_tokens, window_tokens: window_tokens.filter(|tokens| *tokens > 0) }
    }
}

/// The person's action on a page is complete, so the page need not stay open. See
/// [`QuestionSubject::Page`](crate::QuestionSubject::Page).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuestionCompleted {
    /// The program's id of the question.
    pub question: String,
}

impl QuestionCompleted {
    /// Creates the event of a question.
    pub fn new(question: impl Into<String>) -> Self {
        Self { question: question.into() }
    }
}

/// A message is complete.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageEnded {
    /// Id of the message.
    pub message: MessageId,
    /// Tool call that started the sub-agent which wrote the message. `None` for the turn's own agent.
    pub parent: Option<CallId>,
    /// The whole text, from the vendor's record if it has one. It may be empty, for example if the message only
    /// calls tools.
    pub text: String,
    /// Usage of the model call, if it is reported per message.
    pub usage: Option<Usage>,
    /// Reason why the model stopped, if the vendor reports it per message.
    pub finish: Option<FinishReason>,
}

impl MessageEnded {
    /// Creates the end of a message of the turn's own agent.
    pub fn new(message: MessageId, text: impl Into<String>) -> Self {
        Self { message, parent: None, text: text.into(), usage: None, finish: None }
    }

    /// Sets the tool call whose sub-agent wrote the message.
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

/// Reason why a message was withdrawn.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidCause {
    /// The backend repeated the model call.
    Retry,
    /// The answer did not fit the output schema, so the model has to write it again.
    Repair,
    /// Another backend took over.
    Fallback,
    /// The vendor's record does not contain the message.
    NotInRecord,
}

/// A message was withdrawn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageVoided {
    /// Id of the message.
    pub message: MessageId,
    /// Reason for the withdrawal.
    pub cause: VoidCause,
}

impl MessageVoided {
    /// Creates the withdrawal of `message`.
    pub fn new(message: MessageId, cause: VoidCause) -> Self {
        Self { message, cause }
    }
}

/// State of a limit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    /// The limit is not near.
    Allowed,
    /// The limit is near.
    Warning,
    /// The limit is reached, and the vendor rejects requests.
    Rejected,
}

/// The vendor's report on its limits.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitNotification {
    /// State of the limit.
    pub status: RateLimitStatus,
    /// Name of the limit, in the vendor's words.
    pub window: Option<String>,
    /// Used part of the limit, in percent.
    pub used_percent: Option<f64>,
    /// Time at which the limit is reset.
    pub resets_at: Option<SystemTime>,
}

impl RateLimitNotification {
    /// Creates a report on one limit.
    pub fn new(status: RateLimitStatus) -> Self {
        Self { status, window: None, used_percent: None, resets_at: None }
    }

    /// Sets the name of the limit.
    #[must_use]
    pub fn with_window(mut self, window: Option<String>) -> Self {
        self.window = window;
        self
    }

    /// Sets the used part, in percent.
    #[must_use]
    pub fn with_used_percent(mut self, used_percent: Option<f64>) -> Self {
        self.used_percent = used_percent;
        self
    }

    /// Sets the time of the reset.
    #[must_use]
    pub fn with_resets_at(mut self, resets_at: Option<SystemTime>) -> Self {
        self.resets_at = resets_at;
        self
    }
}

/// The same backend tries again.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retrying {
    /// Number of the next attempt. The first retry is 2.
    pub attempt: u32,
    /// Wait before the retry, if it is known.
    pub delay: Option<Duration>,
    /// Kind of the failure, if it is known.
    pub kind: Option<ErrorKind>,
    /// The failure, in the vendor's words.
    pub reason: String,
}

impl Retrying {
    /// Creates a retry with its reason.
    pub fn new(attempt: u32, reason: impl Into<String>) -> Self {
        Self { attempt, delay: None, kind: None, reason: reason.into() }
    }

    /// Sets the wait.
    #[must_use]
    pub fn with_delay(mut self, delay: Option<Duration>) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(mut self, kind: Option<ErrorKind>) -> Self {
        self.kind = kind;
        self
    }
}

/// Another backend takes over.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fallback {
    /// The backend that could not run, with the reason.
    pub skipped: Skipped,
    /// The backend that takes over.
    pub to: BackendId,
}

impl Fallback {
    /// Creates the event that `to` takes over.
    pub fn new(skipped: Skipped, to: BackendId) -> Self {
        Self { skipped, to }
    }
}

/// A message for the caller about a problem.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// The message, in one sentence.
    pub text: String,
}

impl Warning {
    /// Creates a warning.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Data from the vendor that Nexus does not know.
///
/// In a turn with tools it may be a call or the answer to a call. The turn's effects are then
/// [`Unknown`](super::Effects::Unknown), and no other backend takes over automatically.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unrecognized {
    /// The vendor's name for the data, if it could be read.
    pub name: Option<String>,
    /// The received data; text that is not JSON is a JSON string.
    pub raw: Value,
    /// Length of the original in bytes, if `raw` contains only its beginning.
    pub truncated_from_bytes: Option<u64>,
    /// True if the data cannot be a call, so that the turn's effects stay known.
    #[serde(default)]
    pub is_harmless: bool,
}

impl Unrecognized {
    /// Creates the event with `raw`, unchanged.
    pub fn new(name: Option<String>, raw: Value) -> Self {
        Self { name, raw, truncated_from_bytes: None, is_harmless: false }
    }

    /// Creates the event from a line: as JSON if it is valid JSON, else as text.
    pub fn of_line(name: Option<String>, line: &[u8]) -> Self {
        let text = || Value::String(String::from_utf8_lossy(line).into_owned());
        Self::new(name, serde_json::from_slice(line).unwrap_or_else(|_| text()))
    }

    /// Declares that the data cannot be a call, for example because another line confirms the same content.
    #[must_use]
    pub fn harmless(mut self) -> Self {
        self.is_harmless = true;
        self
    }

    /// Declares that `raw` contains only the beginning of `bytes` bytes.
    #[must_use]
    pub fn truncated_from(mut self, bytes: u64) -> Self {
        self.truncated_from_bytes = Some(bytes);
        self
    }
}

/// A line or an event that was read after a [repair](crate::lenient_json).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairedLine {
    /// The line or event as received. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub raw: String,
    /// Description of the repairs, for people.
    pub repairs: String,
}

impl RepairedLine {
    /// Creates the event that `raw` was read after `repairs`.
    pub fn new(raw: &[u8], repairs: &Repairs) -> Self {
        Self { raw: String::from_utf8_lossy(raw).into_owned(), repairs: repairs.to_string() }
    }
}
