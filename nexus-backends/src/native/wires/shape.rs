//! Wire of a request, with the shape of requests on it.

use super::chat::shape::{ChatShape, is_completion};
use super::messages::shape::{MessagesShape, is_message};
use super::responses::shape::{Shape, is_response};

/// Wire that a server speaks.
#[derive(Clone, Debug)]
pub(crate) enum WireShape {
    /// The Responses API.
    Responses(Shape),
    /// Chat Completions.
    Chat(ChatShape),
    /// The Messages API.
    Messages(MessagesShape),
}

impl WireShape {
    /// Returns the shape on the Responses wire; `None` on another one.
    pub(crate) fn responses(&self) -> Option<&Shape> {
        match self {
            Self::Responses(shape) => Some(shape),
            Self::Chat(_) | Self::Messages(_) => None,
        }
    }

    /// Returns the path of a model call, below the base URL.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            Self::Responses(_) => "/responses",
            Self::Chat(_) => "/chat/completions",
            Self::Messages(shape) => shape.path,
        }
    }

    /// Returns true if a complete JSON body is a reply, not an error.
    pub(crate) fn is_reply(&self, body: &[u8]) -> bool {
        match self {
            Self::Responses(_) => is_response(body),
            Self::Chat(_) => is_completion(body),
            Self::Messages(_) => is_message(body),
        }
    }

    /// Returns true if functions and the answer's schema have the flag `strict`.
    pub(crate) fn strict(&self) -> bool {
        match self {
            Self::Responses(shape) => shape.strict,
            Self::Chat(shape) => shape.strict,
            Self::Messages(_) => false,
        }
    }
}
