//! Wire of a request, with the shape of requests on it.

use serde_json::Value;

use super::chat::shape::{ChatShape, is_completion};
use super::gemini::schema::restrict_format;
use super::gemini::shape::{GeminiShape, is_answer};
use super::messages::shape::{MessagesShape, is_message};
use super::responses::shape::{Shape, is_response};
use crate::native::tools::wire_tool::ToolForm;

/// Wire that a server speaks.
#[derive(Clone, Debug)]
pub(crate) enum WireShape {
    /// The Responses API.
    Responses(Shape),
    /// Chat Completions.
    Chat(ChatShape),
    /// The Messages API.
    Messages(MessagesShape),
    /// The Gemini API.
    Gemini(GeminiShape),
}

impl WireShape {
    /// Returns the shape on the Responses wire; `None` on another one.
    pub(crate) fn responses(&self) -> Option<&Shape> {
        match self {
            Self::Responses(shape) => Some(shape),
            Self::Chat(_) | Self::Messages(_) | Self::Gemini(_) => None,
        }
    }

    /// Returns the path of a model call, below the base URL.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Responses(_) => "/responses",
            Self::Chat(_) => "/chat/completions",
            Self::Messages(shape) => shape.path,
            Self::Gemini(shape) => &shape.path,
        }
    }

    /// Returns true if a complete JSON body is a reply, not an error.
    pub(crate) fn is_reply(&self, body: &[u8]) -> bool {
        match self {
            Self::Responses(_) => is_response(body),
            Self::Chat(_) => is_completion(body),
            Self::Messages(_) => is_message(body),
            Self::Gemini(_) => is_answer(body),
        }
    }

    /// Returns true if functions and the answer's schema have the flag `strict`.
    pub(crate) fn strict(&self) -> bool {
        match self {
            Self::Responses(shape) => shape.strict,
            Self::Chat(shape) => shape.strict,
            Self::Messages(_) | Self::Gemini(_) => false,
        }
    }

    /// Returns the form of tools in requests.
    pub(crate) fn tool_form(&self) -> ToolForm {
        match self {
            Self::Responses(shape) => ToolForm::Responses { strict: shape.strict },
            Self::Chat(_) => ToolForm::Chat,
            Self::Messages(_) => ToolForm::Messages,
            Self::Gemini(_) => ToolForm::Gemini,
        }
    }

    /// Removes keywords of the answer's schema that the wire cannot express. Returns a warning about a loss.
    pub(crate) fn restrict_format(&self, format: &mut Value) -> Option<String> {
        match self {
            Self::Responses(_) | Self::Chat(_) | Self::Messages(_) => None,
            Self::Gemini(_) => restrict_format(format),
        }
    }
}
