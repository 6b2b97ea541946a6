//! Body of a response: streamed, or read completely up to a size limit.

use std::{
    fmt,
    future::poll_fn,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode};
use tokio::task::coop::poll_proceed;

use super::error::TransportError;
use crate::http::IncomingBody;

/// Maximum number of bytes read of an error's body. The rest is dropped with its connection.
pub(super) const MAX_ERROR_BYTES: usize = 64 << 10;
/// Maximum number of bytes read to determine a body's format. Source: our own bound, above the blanks that some servers
/// send first to fill the buffers of proxies.
const MAX_SNIFFED_BYTES: usize = 8 << 10;
/// Longest wait for an error's body. The bytes received until then are the error.
const ERROR_PATIENCE: Duration = Duration::from_secs(5);

/// Chunks of a body, decoded if it was compressed.
pub(crate) struct Body {
    /// Bytes that were read ahead to determine the format.
    read_ahead: Bytes,
    rest: IncomingBody,
}

impl Body {
    /// Returns the next chunk, which is never empty, or `None` at the regular end of the body.
    pub(crate) fn poll_chunk(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, TransportError>>> {
        match self.read_ahead.is_empty() {
            true => self.poll_rest(context),
            false => Poll::Ready(Some(Ok(std::mem::take(&mut self.read_ahead)))),
        }
    }

    /// Cooperates with the runtime: each chunk counts as progress of the task, so a server that never pauses does not
    /// monopolise a thread.
    fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, TransportError>>> {
        let share = ready!(poll_proceed(context));
        let chunk = ready!(self.rest.poll_chunk(context));
        share.made_progress();
        Poll::Ready(chunk.map(|chunk| chunk.map_err(TransportError::from)))
    }

    async fn chunk(&mut self) -> Option<Result<Bytes, TransportError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    /// Reads chunks until `decide` recognises the body. `decide` gets the beginning of the body, and true if it will
    /// get no more of it. The bytes stay in the body. Returns `None` if `decide` could not recognise it.
    pub(super) async fn sniff<T>(
        &mut self,
        mut decide: impl FnMut(&[u8], bool) -> Option<T>,
    ) -> Result<Option<T>, TransportError> {
        let mut beginning = BytesMut::new();
        loop {
            let chunk = poll_fn(|context| self.poll_rest(context)).await.transpose()?;
            beginning.extend_from_slice(chunk.as_deref().unwrap_or_default());
            let is_all = chunk.is_none() || beginning.len() >= MAX_SNIFFED_BYTES;
            let decided = decide(&beginning, is_all);
            if decided.is_some() || is_all {
                self.read_ahead = beginning.freeze();
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

/// Splits a response into status, headers and body.
pub(super) fn split(response: Response<IncomingBody>) -> (StatusCode, HeaderMap, Body) {
    let (head, rest) = response.into_parts();
    (head.status, head.headers, Body { read_ahead: Bytes::new(), rest })
}

/// Returns the complete body, unless it is larger than `limit` bytes.
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

/// Returns the beginning of an error's body. Never fails: an interrupted or endless body gives the bytes received so
/// far.
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
    // Ignore a timeout: the bytes received until then are used.
    let _ = tokio::time::timeout(ERROR_PATIENCE, read).await;
    bytes.freeze()
}
