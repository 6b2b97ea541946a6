//! Reply to a message, for any transport.

use bytes::Bytes;
use futures::future::BoxFuture;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use serde::Serialize;
use tokio::sync::mpsc;

use super::{in_flight::InFlightRequest, wire};

/// Reply to a message.
pub(crate) enum Reply {
    /// No reply: the message was not a request.
    Nothing,
    /// One message, sent immediately.
    Message(Bytes, ReplyStatus),
    /// Several messages over time, the answer last. Dropping the stream ends the wait.
    Stream(ReplyStream),
}

/// Status of a reply, for a transport with status codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyStatus {
    /// The request was answered, even if with an error.
    Answered,
    /// The request is invalid.
    BadRequest,
    /// The method does not exist.
    NotFound,
}

/// Messages of one request, the answer last. They are produced while [`ReplyStream::next`] is polled.
pub(crate) struct ReplyStream {
    messages: mpsc::Receiver<Bytes>,
    /// Future that sends the messages. `None` once it has sent the last one.
    work: Option<BoxFuture<'static, ()>>,
    /// Ends the wait when it is dropped.
    _waiting: InFlightRequest,
}

impl ReplyStream {
    /// Creates the stream of the messages that `work` sends.
    pub(crate) fn new(
        messages: mpsc::Receiver<Bytes>,
        work: BoxFuture<'static, ()>,
        waiting: InFlightRequest,
    ) -> Self {
        Self { messages, work: Some(work), _waiting: waiting }
    }

    /// Returns the next message. Returns `None` after the last one, and if the request was cancelled.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        while let Some(work) = &mut self.work {
            tokio::select! {
                biased;
                message = self.messages.recv() => return message,
                () = work => self.work = None,
            }
        }
        self.messages.recv().await
    }
}

impl Reply {
    pub(crate) fn result(id: RequestId, result: impl Serialize) -> Self {
        Self::Message(wire::result_message(id, result), ReplyStatus::Answered)
    }

    /// Creates an error reply. `names_itself` is true for a revision in which some errors have their own HTTP
    /// status.
    pub(crate) fn error(id: RequestId, error: ErrorData, names_itself: bool) -> Self {
        // Source: the MCP specification, 2026-07-28, Streamable HTTP.
        let status = match error.code {
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION | ErrorCode::HEADER_MISMATCH => ReplyStatus::BadRequest,
            ErrorCode::METHOD_NOT_FOUND if names_itself => ReplyStatus::NotFound,
            _ => ReplyStatus::Answered,
        };
        Self::Message(wire::error_message(Some(id), error), status)
    }
}
