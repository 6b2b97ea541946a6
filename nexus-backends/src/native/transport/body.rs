//! The body of an answer: in pieces as they come, or whole within a bound.

use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use reqwest::{Response, StatusCode, header::HeaderMap};

use super::error::TransportError;

/// How much of an error's body is read, in bytes; the rest is dropped with its connection.
pub(super) const MAX_ERROR_BYTES: usize = 64 << 10;
/// How long an error's body is waited for; what came until then is the error.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// The pieces of a body, decoded if it was compressed.
pub(crate) struct Body {
    /// What was read ahead to see what it is.
    read_ahead: VecDeque<Bytes>,
    rest: reqwest::Body,
}

impl Body {
    /// The next piece, never an empty one. `None`: the body ended in good order.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TransportError>>> {
        if let Some(chunk) = self.read_ahead.pop_front() {
            return Poll::Ready(Some(Ok(chunk)));
        }
        self.poll_rest(context)
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
        loop {
            match ready!(Pin::new(&mut self.rest).poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(TransportError::reading(error)))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) if !chunk.is_empty() => return Poll::Ready(Some(Ok(chunk))),
                    // Trailers, or nothing.
                    _ => {}
                },
            }
        }
    }

    async fn chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Reads pieces until `decide` knows what the body is. It is shown the beginning of the body, and whether that
    /// is all. The pieces stay in the body.
    pub(super) async fn sniff<T>(
        &mut self,
        mut decide: impl FnMut(&[u8], bool) -> Option<T>,
    ) -> Result<Option<T>, TransportError> {
        let mut beginning = BytesMut::new();
        loop {
            let chunk = poll_fn(|context| self.poll_rest(context)).await.transpose()?;
            let is_all = chunk.is_none();
            if let Some(chunk) = chunk {
                // More than this never decides anything.
                let room = MAX_ERROR_BYTES.saturating_sub(beginning.len()).min(chunk.len());
                beginning.extend_from_slice(chunk.get(..room).unwrap_or_default());
                self.read_ahead.push_back(chunk);
            }
            let decided = decide(&beginning, is_all || beginning.len() >= MAX_ERROR_BYTES);
            if decided.is_some() || is_all {
                return Ok(decided);
            }
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}

/// Takes an answer apart.
pub(super) fn split(mut response: Response) -> (StatusCode, HeaderMap, Body) {
    let status = response.status();
    let headers = std::mem::take(response.headers_mut());
    (status, headers, Body { read_ahead: VecDeque::new(), rest: response.into() })
}

/// The whole body, unless it is larger than `limit` bytes.
pub(super) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, TransportError> {
    let mut bytes = BytesMut::new();
    while let Some(chunk) = body.chunk().await {
        let chunk = chunk?;
        if bytes.len().saturating_add(chunk.len()) > limit {
            return Err(TransportError::too_large(limit));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes.freeze())
}

/// The beginning of an error's body. It never fails: a body that breaks off or does not end says what it said.
pub(super) async fn beginning(mut body: Body) -> Bytes {
    let mut bytes = BytesMut::new();
    let read = async {
        while let Some(Ok(chunk)) = body.chunk().await {
            let room = MAX_ERROR_BYTES.saturating_sub(bytes.len()).min(chunk.len());
            bytes.extend_from_slice(chunk.get(..room).unwrap_or_default());
            if bytes.len() >= MAX_ERROR_BYTES {
                break;
            }
        }
    };
    // Patience that ran out is no error of its own.
    let _ = tokio::time::timeout(ERROR_PATIENCE, read).await;
    bytes.freeze()
}
