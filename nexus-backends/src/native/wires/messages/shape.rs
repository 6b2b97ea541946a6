//! Shape of requests on the Messages wire.

use std::sync::Arc;

use serde::{Deserialize, de::IgnoredAny};

use super::super::AnswerFormat;

/// Shape of a request.
#[derive(Clone, Debug)]
pub(crate) struct MessagesShape {
    /// Path of a model call, below the base URL.
    pub(crate) path: &'static str,
    /// Maximum number of tokens of an answer, which every request states.
    pub(crate) max_tokens: u64,
    /// Form in which an effort is sent.
    pub(crate) thinking: ThinkingForm,
    /// True if the request marks where a prompt cache ends.
    pub(crate) cache_marks: bool,
    /// Recipient of an answer's schema.
    pub(crate) answer: AnswerFormat,
    /// True if a request has no `model`, because its address names the model.
    pub(crate) omits_model: bool,
    /// True if a request has no `stream`, because its address requests a stream.
    pub(crate) omits_stream: bool,
    /// JSON object with more members of every request.
    pub(crate) body: Option<Arc<str>>,
}

/// Form in which an effort is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingForm {
    /// As `output_config.effort`, with adaptive thinking.
    Adaptive,
    /// As a budget of tokens.
    Budget,
    /// Not at all.
    Nothing,
}

/// Returns true if a complete JSON body is a message, not an error.
pub(crate) fn is_message(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct BodyStart {
        content: Option<IgnoredAny>,
    }

    serde_json::from_slice::<BodyStart>(body).is_ok_and(|start| start.content.is_some())
}
