//! Result of a model call, with which the loop continues.

use nexus_core::{
    MessageId, ModelId, Usage,
    harness::Failure,
    turn::{Cost, FinishReason},
};
use serde_json::value::RawValue;

/// Result of a model call.
#[derive(Debug)]
pub(crate) struct ModelReply {
    /// The model's output, in its order, without incomplete items.
    pub(crate) items: Vec<OutputItem>,
    /// Tokens, in disjoint buckets.
    pub(crate) usage: Option<Usage>,
    /// The price that the server named.
    pub(crate) cost: Option<Cost>,
    /// The model that the server says it was.
    pub(crate) model: Option<ModelId>,
    /// End of the call.
    pub(crate) ending: CallEnding,
}

/// End of a model call.
#[derive(Debug)]
pub(crate) enum CallEnding {
    /// With the answer.
    Completed {
        /// `Some(false)` asks for another request, although no tool was called.
        end_turn: Option<bool>,
    },
    /// Before the answer was complete.
    Incomplete {
        /// The vendor's reason, such as `max_output_tokens` or `content_filter`.
        reason: String,
    },
    /// With an error that the server told.
    Failed(Failure),
    /// Without a word: no terminal event came.
    Missing {
        /// Something else came in its place that could not be read.
        unreadable: bool,
    },
}

impl CallEnding {
    /// Why the model stopped; `calls_tools` says whether the reply holds a call that we answer.
    pub(super) fn finish(&self, calls_tools: bool) -> Option<FinishReason> {
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

/// One thing that the model put out.
#[derive(Debug)]
pub(crate) enum OutputItem {
    /// Words.
    Message {
        /// Its name within the turn.
        message: MessageId,
        /// Its whole text, a refusal included.
        text: String,
        /// The part of the text in which the model refuses.
        refusal: Option<String>,
        /// The received text.
        raw: Box<RawValue>,
    },
    /// Thinking, to be carried over unchanged.
    Reasoning {
        /// The received text.
        raw: Box<RawValue>,
    },
    /// A call that we answer.
    Call(FunctionCall),
    /// A call that we answer, with free text instead of JSON arguments.
    CustomCall {
        /// Pairs it with its output.
        call_id: String,
        /// The tool.
        name: String,
        /// The text.
        input: String,
        /// The received text.
        raw: Box<RawValue>,
    },
    /// Anything else, such as the trace of a hosted tool: kept and carried over.
    Other {
        /// The vendor's word for it.
        kind: String,
        /// The received text.
        raw: Box<RawValue>,
    },
}

impl OutputItem {
    /// Returns true for a call that the loop answers.
    pub(super) fn is_call(&self) -> bool {
        matches!(self, Self::Call(_) | Self::CustomCall { .. })
    }

    /// The received text.
    pub(crate) fn raw(&self) -> &RawValue {
        match self {
            Self::Message { raw, .. }
            | Self::Reasoning { raw }
            | Self::CustomCall { raw, .. }
            | Self::Other { raw, .. }
            | Self::Call(FunctionCall { raw, .. }) => raw,
        }
    }
}

/// A call of a function.
#[derive(Debug)]
pub(crate) struct FunctionCall {
    /// Pairs it with its output.
    pub(crate) call_id: String,
    /// The function.
    pub(crate) name: String,
    /// The group that the function was offered in.
    pub(crate) namespace: Option<String>,
    /// The arguments, as the model wrote them: they may be no JSON at all.
    pub(crate) arguments: String,
    /// The received text.
    pub(crate) raw: Box<RawValue>,
}
