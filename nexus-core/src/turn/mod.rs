//! One turn: its request, its events, and its result.

mod conversation;
mod cost;
mod effects;
mod effort;
mod event;
mod limits;
mod output;
mod request;
mod result;
mod sink;
mod tool_call;
mod usage;

pub use conversation::{ConversationMode, OnLost, ResumeHandle};
pub use cost::{Cost, CostSource, Usd};
pub use effects::Effects;
pub use effort::{AppliedEffort, Effort, UnknownEffort};
pub use event::{
    ContextUsage, ConversationCompacted, EventEnvelope, Fallback, InputReceived, MessageEnded, MessageVoided,
    QuestionCompleted, Queued, RateLimitNotification, RateLimitStatus, RepairedLine, Retrying, Started,
    TextDelta, ThinkingDelta, ToolCallArguments, ToolCallFinished, ToolCallStarted, TurnEvent, Unrecognized,
    VoidCause, WaitingForReset, Warning,
};
pub use limits::{IdleLimits, Limits};
#[cfg(feature = "schema")]
pub use output::InvalidSchema;
pub use output::{OutputProblem, OutputSchema};
pub use request::{PromptBlock, ToolAccess, TurnRequest};
pub use result::{FinishReason, Message, NotOfType, Provenance, TurnResult};
pub use sink::{EventSink, EventSinkExt, NullSink};
pub use tool_call::{ToolCallRecord, ToolCallStatus, ToolOrigin};
pub use usage::Usage;
