//! Answers in the form of HTTP responses.

use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{
    Response, StatusCode,
    body::Frame,
    header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
};
use nexus_http::{
    MemoryPermit,
    response::{ResponseBody, text, with_body},
};

use super::guard::Rejection;
use crate::reply::{ReplyStatus, ReplyStream};

/// Longest silence of a stream before a comment keeps it open. Source: our own choice, below every idle timeout that was observed
/// in a client.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

pub(super) type HttpAnswer = Response<ResponseBody>;

/// Returns the response that rejects a request.
pub(super) fn rejected(rejection: Rejection) -> HttpAnswer {
    let (status, words) = rejection.status();
    let mut answer = text(status, words);
    let headers = answer.headers_mut();
    match rejection {
        Rejection::Unauthenticated => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Rejection::Method => {
            headers.insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
        }
        _ => {}
    }
    if rejection.ends_connection() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// Returns a response with one message.
pub(super) fn message(message: Bytes, status: ReplyStatus) -> HttpAnswer {
    let status = match status {
        ReplyStatus::Answered => StatusCode::OK,
        ReplyStatus::BadRequest => StatusCode::BAD_REQUEST,
        ReplyStatus::NotFound => StatusCode::NOT_FOUND,
    };
    with_body(status, "application/json", message)
}

/// Returns a response that sends each message as an event when it arrives. Comments during pauses show that more will follow. The
/// request keeps its memory permit until the last message.
pub(super) fn streamed(messages: ReplyStream, memory: MemoryPermit) -> HttpAnswer {
    // Send the first bytes immediately, for a client that waits for them.
    let opening = stream::once(async { Ok(Frame::data(Bytes::from_static(b": open\n\n"))) });
    let events = stream::unfold((messages, memory), |(mut messages, memory)| async {
        let bytes = tokio::select! {
            // `biased`: prefer a message to a comment that only keeps the connection open.
            biased;
            message = messages.next() => event(&message?),
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b": \n\n"),
        };
        Some((Ok(Frame::data(bytes)), (messages, memory)))
    });
    let events = futures::StreamExt::chain(opening, events);
    let mut answer = Response::new(StreamBody::new(events).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

/// Formats a message as an event. Serialized JSON contains no line breaks.
fn event(message: &[u8]) -> Bytes {
    [b"event: message\ndata: ".as_slice(), message, b"\n\n"].concat().into()
}
