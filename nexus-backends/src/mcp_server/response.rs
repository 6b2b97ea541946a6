//! Answers as HTTP carries them.

use std::{convert::Infallible, future::Future, time::Duration};

use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Response, StatusCode,
    body::Frame,
    header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE},
};
use rmcp::model::{ErrorData, JsonRpcError, JsonRpcResponse, JsonRpcVersion2_0, RequestId};
use serde::Serialize;

use super::guard::Refusal;

/// How long an answer that is still to come is silent. Source: our own choice, below every time-out of an idle
/// connection that was seen in a client.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Body of an answer.
pub(super) type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;
/// HTTP answer of the server.
pub(super) type McpResponse = Response<ResponseBody>;

/// One that turns the request away.
pub(super) fn refused(refusal: Refusal) -> McpResponse {
    let (status, words) = refusal.status();
    let mut answer = with_body(status, "text/plain", Bytes::from_static(words.as_bytes()));
    let headers = answer.headers_mut();
    match refusal {
        Refusal::Unauthenticated => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Refusal::Method => {
            headers.insert(ALLOW, HeaderValue::from_static("POST, DELETE"));
        }
        _ => {}
    }
    if refusal.ends_connection() {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// One that says nothing.
pub(super) fn empty(status: StatusCode) -> McpResponse {
    let mut answer = Response::new(Empty::new().boxed_unsync());
    *answer.status_mut() = status;
    answer
}

/// What a request asked for.
pub(super) fn result(id: RequestId, result: impl Serialize) -> McpResponse {
    with_body(StatusCode::OK, "application/json", result_message(id, result))
}

/// Why a request is not answered.
pub(super) fn error(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> McpResponse {
    with_body(status, "application/json", written(&JsonRpcError::new(id, error)))
}

/// What a request asked for, once it is there. Meanwhile comments show that it is still to come. If there is `None`
/// the stream ends without it.
pub(super) fn once_there(message: impl Future<Output = Option<Bytes>> + Send + 'static) -> McpResponse {
    let events = stream::unfold(Some(Box::pin(message)), |waiting| async {
        let mut message = waiting?;
        let (bytes, next) = tokio::select! {
            biased;
            message = &mut message => (event(&message?), None),
            () = tokio::time::sleep(KEEP_ALIVE) => (Bytes::from_static(b": \n\n"), Some(message)),
        };
        Some((Ok(Frame::data(bytes)), next))
    });
    let mut answer = Response::new(StreamBody::new(events).boxed_unsync());
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

/// A response of JSON-RPC.
pub(super) fn result_message(id: RequestId, result: impl Serialize) -> Bytes {
    written(&JsonRpcResponse { jsonrpc: JsonRpcVersion2_0, id, result })
}

/// A message as an event. JSON has no line breaks of its own.
fn event(message: &[u8]) -> Bytes {
    [b"event: message\ndata: ".as_slice(), message, b"\n\n"].concat().into()
}

fn written(message: &impl Serialize) -> Bytes {
    // These types hold strings, numbers and JSON values, and no map with other keys.
    serde_json::to_vec(message).unwrap_or_default().into()
}

fn with_body(status: StatusCode, kind: &'static str, body: Bytes) -> McpResponse {
    let mut answer = Response::new(Full::new(body).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
