//! Wire of a request, with the shape of requests on it.

use super::responses::shape::{Shape, is_response};

/// Wire that a server speaks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WireShape {
    /// The Responses API.
    Responses(Shape),
}

impl WireShape {
    /// Returns the shape on the Responses wire; `None` on another one.
    pub(crate) fn responses(&self) -> Option<&Shape> {
        match self {
            Self::Responses(shape) => Some(shape),
        }
    }

    /// Returns the path of a model call, below the base URL.
    pub(crate) fn path(&self) -> &'static str {
        match self {
            Self::Responses(_) => "/responses",
        }
    }

    /// Returns true if a complete JSON body is a reply, not an error.
    pub(crate) fn is_reply(&self, body: &[u8]) -> bool {
        match self {
            Self::Responses(_) => is_response(body),
        }
    }

    /// Returns true if functions and the answer's schema have the flag `strict`.
    pub(crate) fn strict(&self) -> bool {
        match self {
            Self::Responses(shape) => shape.strict,
        }
    }
}
