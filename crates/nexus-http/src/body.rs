//! Reads request bodies up to a limit.

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

use crate::memory::{BodyTooLarge, MemoryPermit};

/// Reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The body is larger than the limit.
    TooLarge,
    /// The connection broke before the end of the body.
    Incomplete,
}

impl From<BodyTooLarge> for BodyError {
    fn from(_: BodyTooLarge) -> Self {
        Self::TooLarge
    }
}

/// Reads a body of at most `max_bytes` bytes. With `memory`, waits for shared memory before it reads more. Has no time limit of
/// its own.
///
/// # Errors
///
/// [`BodyError`].
pub async fn read_body(
    mut body: Incoming,
    max_bytes: usize,
    mut memory: Option<&mut MemoryPermit>,
) -> Result<BytesMut, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(piece) = frame.map_err(|_broken| BodyError::Incomplete)?.into_data() else { continue };
        let bytes = whole.len() + piece.len();
        if bytes > max_bytes {
            return Err(BodyError::TooLarge);
        }
        // While this waits, nothing more is read, so TCP slows the client down.
        if let Some(memory) = &mut memory {
            memory.grow_to(bytes).await?;
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole)
}
