//! Reply of a model call, with which the loop continues.

use nexus_core::{
    MessageId, ModelId, Usage,
    harness::Failure,
    turn::{Cost, FinishReason},
};
use serde_json::value::RawValue;

/// Reply of a model call.
#[derive(Debug)]
pub(crate) struct ModelReply {
    /// Output of the model, in order, without incomplete items.
    pub(crate) items: Vec<OutputItem>,
    /// Token counts in categories that do not overlap.
    pub(crate) usage: Option<Usage>,
    /// Cost that the server reported, otherwise the cost by the configured prices.
    pub(crate) cost: Option<Cost>,
    /// Model that the server reported.
    pub(crate) model: Option<ModelId>,
    /// End of the call.
    pub(crate) ending: CallEnding,
}

/// End of a model call.
#[derive(Debug)]
pub(crate) enum CallEnding {
    /// The answer is complete.
    Completed {
        /// `Some(false)` requests another model call, although no tool was called.
        end_turn: Option<bool>,
    },
    /// The answer is incomplete.
    Incomplete {
        /// Reason of the vendor, such as `max_output_tokens` or `content_filter`.
        reason: String,
    },
    /// The server reported an error.
    Failed(Failure),
    /// No terminal event arrived.
    Missing {
        /// True if something unreadable arrived.
        unreadable: bool,
    },
}

impl CallEnding {
    /// Returns the reason why the model stopped. `calls_tools` is true if the reply contains a call that Nexus answers.
    pub(crate) fn finish(&self, calls_tools: bool) -> Option<FinishReason> {
        match self {
            Self::Completed { .. } if calls_tools => Some(FinishReason::ToolCalls),
            Self::Completed { end_turn: Some(false) } => Some(FinishReason::Paused),
            Self::Completed { .. } => Some(FinishReason::Stop),
            Self::Incomplete { reason } if reason == "max_output_tokens" => Some(FinishReason::Length),
            Self::Incomplete { reason } => Some(FinishReason::Other(reason.clone())),
            Self::Failed(_) | Self::Missing { .. } => None,
        }
    }
}

/// Output item of the model.
#[derive(Debug)]
pub(crate) enum OutputItem {
    /// A message.
    Message {
        /// Id of the message within the turn.
        message: MessageId,
        /// Complete text, including a refusal.
        text: String,
        /// Part of the text that is a refusal.
        refusal: Option<String>,
        /// Raw JSON of the item; `None` on a wire whose messages are only text.
        raw: Option<Box<RawValue>>,
    },
    /// Reasoning, which is sent back unchanged.
    Reasoning {
        /// Raw JSON of the item.
        raw: Box<RawValue>,
    },
    /// A call that Nexus answers.
    Call(FunctionCall),
    /// A call that Nexus answers, with free text instead of JSON arguments.
    CustomCall {
        /// Id that pairs the call with its output.
        call_id: String,
        /// Name of the tool.
        name: String,
        /// Text of the call.
        input: String,
        /// Raw JSON of the item; `None` after its id was changed.
        raw: Option<Box<RawValue>>,
    },
    /// Any other item, such as the trace of a hosted tool. It is sent back to the model.
    Other {
        /// Type of the item.
        kind: String,
        /// Raw JSON of the item.
        raw: Box<RawValue>,
    },
}

impl OutputItem {
    /// Returns true for a call that Nexus answers.
    pub(crate) fn is_call(&self) -> bool {
        matches!(self, Self::Call(_) | Self::CustomCall { .. })
    }

    /// Returns the raw JSON of the item.
    pub(crate) fn raw(&self) -> Option<&RawValue> {
        match self {
            Self::Message { raw, .. }
            | Self::CustomCall { raw, .. }
            | Self::Call(FunctionCall { raw, .. }) => raw.as_deref(),
            Self::Reasoning { raw } | Self::Other { raw, .. } => Some(raw),
        }
    }
}

/// Call of a function.
#[derive(Debug)]
pub(crate) struct FunctionCall {
    /// Id that pairs the call with its output.
    pub(crate) call_id: String,
    /// Name of the function.
    pub(crate) name: String,
    /// Namespace of the function.
    pub(crate) namespace: Option<String>,
    /// Arguments as the model wrote them, which need not be JSON.
    pub(crate) arguments: String,
    /// Raw JSON of the call; `None` after its id was changed, and on a wire whose calls have no other content.
    pub(crate) raw: Option<Box<RawValue>>,
}
