//! Shape of requests on the Chat Completions wire.

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

use super::super::AnswerFormat;

/// Shape of a request.
#[derive(Clone, Debug)]
pub(crate) struct ChatShape {
    /// Role of the system text.
    pub(crate) system: &'static str,
    /// Field with the limit of an answer; `None` omits it.
    pub(crate) output_bound: Option<&'static str>,
    /// Value of `parallel_tool_calls`; `None` omits it.
    pub(crate) parallel_tool_calls: Option<bool>,
    /// True if the request asks for the usage in the stream.
    pub(crate) stream_usage: bool,
    /// True if the schema of an answer has the flag `strict`.
    pub(crate) strict: bool,
    /// Replies whose thinking is sent back.
    pub(crate) thinking_back: ThinkingBack,
    /// Maximum length of a call's id.
    pub(crate) id_length: usize,
    /// Recipient of an answer's schema.
    pub(crate) answer: AnswerFormat,
    /// JSON object with more members of every request.
    pub(crate) body: Option<Arc<str>>,
}

/// Replies whose thinking is sent back to the server that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingBack {
    /// Those with calls of tools.
    WithCalls,
    /// All of them.
    Always,
    /// None of them.
    Never,
}

/// Returns true if a complete JSON body is a completion, not an error.
pub(crate) fn is_completion(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct BodyStart {
        choices: Option<IgnoredAny>,
    }

    serde_json::from_slice::<BodyStart>(body).is_ok_and(|start| start.choices.is_some())
}
