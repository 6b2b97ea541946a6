//! What an error of a server means.

use std::time::SystemTime;

use nexus_core::ErrorKind;
use reqwest::{StatusCode, header::HeaderMap};

use crate::turn::Failure;

/// An error as a server told it: by status and body, or inside a stream.
#[derive(Debug)]
pub(crate) struct ErrorReply<'a> {
    /// The status; `None` inside a stream.
    pub(crate) status: Option<StatusCode>,
    /// The headers of the answer.
    pub(crate) headers: &'a HeaderMap,
    /// What the body or the event says, in whichever of the known forms.
    pub(crate) body: &'a ErrorBody,
}
