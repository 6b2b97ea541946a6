//! Events of a turn, as they happen.
//!
//! Every variant has a struct with a constructor, so that a backend outside of this workspace can create it and
//! a new field breaks no code.

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

/// An event with its place in the turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventEnvelope {
    /// Counts the events of one `run_turn` from zero, without gaps, across retries and fallbacks.
    pub sequence: u64,
    /// Time since the turn was first polled.
    pub elapsed: Duration,
    /// The event.
    pub event: TurnEvent,
}

impl EventEnvelope {
    /// Puts an event in its place. Backends let [`Outbox`](crate::Outbox) do this.
    pub fn new(sequence: u64, elapsed: Duration, event: TurnEvent) -> Self {
        Self { sequence, elapsed, event }
    }
}

/// One thing that happened in a turn.
///
/// Deltas are for display. What counts is the [`TurnResult`](super::TurnResult): a message that a retry or a
/// fallback replaces is taken back by [`TurnEvent::MessageVoided`] and never appears there.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type")]
pub enum TurnEvent {
    /// The turn waits for a place, because the backend runs as many as it may.
    Queued(Queued),
    /// A backend took the turn up.
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
    /// A message is complete.
    MessageEnded(MessageEnded),
    /// A message is taken back; forget its deltas.
    MessageVoided(MessageVoided),
    /// The vendor said something about its limits.
    RateLimit(RateLimitNotification),
    /// The same backend tries again.
    Retrying(Retrying),
    /// Another backend takes over.
    Fallback(Fallback),
    /// Something the caller should know, which does not end the turn.
    Warning(Warning),
    /// Something the vendor sent that we do not know, kept word for word.
    Unrecognized(Unrecognized),
    /// Something the vendor sent that is not quite JSON, and was read after a repair.
    Repaired(RepairedLine),
}

impl TurnEvent {
    /// Returns true if the event is only for display: the record of the turn is complete without it.
    pub fn is_display_only(&self) -> bool {
        matches!(self, Self::TextDelta(_) | Self::ThinkingDelta(_))
    }

    /// A warning.
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
    Queued(Queued), Started(Started), TextDelta(TextDelta), ThinkingDelta(ThinkingDelta),
    ToolCallStarted(ToolCallStarted), ToolCallArguments(ToolCallArguments),
    ToolCallFinished(ToolCallFinished), InputReceived(InputReceived), MessageEnded(MessageEnded), MessageVoided(MessageVoided),
    RateLimit(RateLimitNotification), Retrying(Retrying), Fallback(Fallback), Warning(Warning),
    Unrecognized(Unrecognized), Repaired(RepairedLine),
}

/// The turn waits for a place.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// The backend that it waits for.
    pub backend: BackendId,
    /// Turns the backend runs at once.
    pub limit: usize,
}

impl Queued {
    /// A turn that waits, as `limit` turns run on the backend.
    pub fn new(backend: BackendId, limit: usize) -> Self {
        Self { backend, limit }
    }
}

/// A backend took the turn up.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Name of the backend.
    pub backend: BackendId,
    /// The model, as the vendor named it, where it did.
    pub model: Option<ModelId>,
    /// The requested effort and the applied one, if the request has one.
    pub effort: Option<AppliedEffort>,
    /// The version of the program or service.
    pub version: Option<String>,
}

impl Started {
    /// `backend` took the turn up.
    pub fn new(backend: BackendId) -> Self {
        Self { backend, model: None, effort: None, version: None }
    }

    /// Names the model.
    #[must_use]
    pub fn with_model(mut self, model: Option<ModelId>) -> Self {
        self.model = model;
        self
    }

    /// States the effort.
    #[must_use]
    pub fn with_effort(mut self, effort: Option<AppliedEffort>) -> Self {
        self.effort = effort;
        self
    }

    /// States the version.
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
            /// The message it belongs to.
            pub message: MessageId,
            /// The call of the sub-agent that speaks; `None` is the turn's own agent.
            pub parent: Option<CallId>,
            /// The piece to append, never the text so far.
            pub text: String,
        }

        impl $name {
            /// A piece of a message of the turn's own agent.
            pub fn new(message: MessageId, text: impl Into<String>) -> Self {
                Self { message, parent: None, text: text.into() }
            }

            /// Says that a sub-agent speaks.
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
    /// Pairs the events of one call.
    pub call: CallId,
    /// The call of the sub-agent that called; `None` is the turn's own agent.
    pub parent: Option<CallId>,
    /// The tool's name: the caller's own, or the harness's word for its tool.
    pub name: String,
    /// Owner of the tool.
    pub origin: ToolOrigin,
    /// Possible effects of a call.
    pub effects: Effects,
}

impl ToolCallStarted {
    /// A call by the turn's own agent.
    pub fn new(call: CallId, name: impl Into<String>, origin: ToolOrigin, effects: Effects) -> Self {
        Self { call, parent: None, name: name.into(), origin, effects }
    }

    /// Says that a sub-agent called.
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
    /// The call.
    pub call: CallId,
    /// The arguments, as far as the vendor shows them. Text that is not JSON is a JSON string.
    pub arguments: Value,
}

impl ToolCallArguments {
    /// The arguments of `call`.
    pub fn new(call: CallId, arguments: Value) -> Self {
        Self { call, arguments }
    }
}

/// A call was answered.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCallFinished {
    /// The call.
    pub call: CallId,
    /// Its end.
    pub status: ToolCallStatus,
    /// Its output, as far as the vendor shows it.
    pub output: Vec<ToolContent>,
}

impl ToolCallFinished {
    /// The end of `call`.
    pub fn new(call: CallId, status: ToolCallStatus, output: Vec<ToolContent>) -> Self {
        Self { call, status, output }
    }
}

/// Input by [`Steering`](crate::Steering) was passed to the agent during the turn: the next model request has
/// it, after everything before this event.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputReceived {
    /// Text of the input, without the secrets of the turn.
    pub text: String,
}

impl InputReceived {
    /// `text` was handed over.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// A message is complete.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageEnded {
    /// The message.
    pub message: MessageId,
    /// The call of the sub-agent that spoke; `None` is the turn's own agent.
    pub parent: Option<CallId>,
    /// The whole text, from the vendor's record where it keeps one. May be empty, as when the message only
    /// calls tools.
    pub text: String,
    /// Usage of the model call, if it is reported per message.
    pub usage: Option<Usage>,
    /// Why the model stopped, where it is reported by message.
    pub finish: Option<FinishReason>,
}

impl MessageEnded {
    /// The end of a message of the turn's own agent.
    pub fn new(message: MessageId, text: impl Into<String>) -> Self {
        Self { message, parent: None, text: text.into(), usage: None, finish: None }
    }

    /// Says that a sub-agent spoke.
    #[must_use]
    pub fn with_parent(mut self, parent: Option<CallId>) -> Self {
        self.parent = parent;
        self
    }

    /// States the usage.
    #[must_use]
    pub fn with_usage(mut self, usage: Option<Usage>) -> Self {
        self.usage = usage;
        self
    }

    /// States why the model stopped.
    #[must_use]
    pub fn with_finish(mut self, finish: Option<FinishReason>) -> Self {
        self.finish = finish;
        self
    }
}

/// Why a message was taken back.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VoidCause {
    /// The model call was repeated.
    Retry,
    /// The answer did not have the requested shape, so the model has to write it again.
    Repair,
    /// Another backend took over.
    Fallback,
    /// The vendor's record does not hold it.
    NotInRecord,
}

/// A message is taken back.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageVoided {
    /// The message.
    pub message: MessageId,
    /// Why.
    pub cause: VoidCause,
}

impl MessageVoided {
    /// Takes `message` back.
    pub fn new(message: MessageId, cause: VoidCause) -> Self {
        Self { message, cause }
    }
}

/// Distance to a limit.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimitStatus {
    /// There is room.
    Allowed,
    /// There is little room.
    Warning,
    /// The limit is reached: requests are refused.
    Rejected,
}

/// The vendor's report on its limits.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimitNotification {
    /// Distance to the limit.
    pub status: RateLimitStatus,
    /// Name of the limit, in the vendor's words.
    pub window: Option<String>,
    /// Used part, in percent.
    pub used_percent: Option<f64>,
    /// Time of its reset.
    pub resets_at: Option<SystemTime>,
}

impl RateLimitNotification {
    /// One reported limit.
    pub fn new(status: RateLimitStatus) -> Self {
        Self { status, window: None, used_percent: None, resets_at: None }
    }

    /// Names the limit.
    #[must_use]
    pub fn with_window(mut self, window: Option<String>) -> Self {
        self.window = window;
        self
    }

    /// States how much is used, in percent.
    #[must_use]
    pub fn with_used_percent(mut self, used_percent: Option<f64>) -> Self {
        self.used_percent = used_percent;
        self
    }

    /// States when it is reset.
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
    /// The attempt that is about to be made; the first retry is 2.
    pub attempt: u32,
    /// Wait before the retry, if it is known.
    pub delay: Option<Duration>,
    /// Kind of the failure, if it is known.
    pub kind: Option<ErrorKind>,
    /// The failure, in the vendor's words.
    pub reason: String,
}

impl Retrying {
    /// A retry, and what it is for.
    pub fn new(attempt: u32, reason: impl Into<String>) -> Self {
        Self { attempt, delay: None, kind: None, reason: reason.into() }
    }

    /// States the wait.
    #[must_use]
    pub fn with_delay(mut self, delay: Option<Duration>) -> Self {
        self.delay = delay;
        self
    }

    /// States the kind.
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
    /// `to` takes over.
    pub fn new(skipped: Skipped, to: BackendId) -> Self {
        Self { skipped, to }
    }
}

/// Something the caller should know.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What, in one sentence.
    pub text: String,
}

impl Warning {
    /// A warning.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }
}

/// Something the vendor sent that we do not know.
///
/// In a turn that has tools it may be a call, or the answer to one. So the turn's effects are
/// [`Unknown`](super::Effects::Unknown) from then on, and no other backend takes it over by itself.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unrecognized {
    /// The vendor's name of it, if it could be read.
    pub name: Option<String>,
    /// The received data; text that is not JSON is a JSON string.
    pub raw: Value,
    /// Length of the original in bytes, if `raw` is only its beginning.
    pub truncated_from_bytes: Option<u64>,
    /// True if it cannot be a call, so that the turn's effects stay known.
    #[serde(default)]
    pub is_harmless: bool,
}

impl Unrecognized {
    /// Keeps `raw` word for word.
    pub fn new(name: Option<String>, raw: Value) -> Self {
        Self { name, raw, truncated_from_bytes: None, is_harmless: false }
    }

    /// Keeps a line word for word: as JSON if it is, else as text.
    pub fn of_line(name: Option<String>, line: &[u8]) -> Self {
        let text = || Value::String(String::from_utf8_lossy(line).into_owned());
        Self::new(name, serde_json::from_slice(line).unwrap_or_else(|_| text()))
    }

    /// Says that it stands where no call can be, such as in what another line confirms.
    #[must_use]
    pub fn harmless(mut self) -> Self {
        self.is_harmless = true;
        self
    }

    /// Says that `raw` is only the beginning.
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
    /// The line or event as it came. Bytes that are not UTF-8 are U+FFFD.
    pub raw: String,
    /// The repairs, for a person.
    pub repairs: String,
}

impl RepairedLine {
    /// `raw` was read after `repairs`.
    pub fn new(raw: &[u8], repairs: &Repairs) -> Self {
        Self { raw: String::from_utf8_lossy(raw).into_owned(), repairs: repairs.to_string() }
    }
}
