//! Wire of a request, with the shape of requests on it.

use serde_json::Value;

use super::chat::shape::{ChatShape, is_completion};
use super::gemini::schema::restrict;
use super::gemini::shape::{GeminiShape, is_answer};
use super::messages::shape::{MessagesShape, is_message};
use super::responses::shape::{Shape, is_response};
use crate::native::tools::OfferedTools;

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

    /// Removes tools, and keywords of schemas, that the wire cannot express, with a warning for each.
    pub(crate) fn restrict(&self, offer: &mut OfferedTools, format: Option<&mut Value>) {
        match self {
            Self::Responses(_) | Self::Chat(_) | Self::Messages(_) => {}
            Self::Gemini(_) => restrict(offer, format),
        }
    }
}
