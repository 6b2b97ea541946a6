//! Reads a small response into memory, up to a size limit.

use reqwest::Response;
use zeroize::Zeroizing;

use super::HttpProblem;

/// Reason why a response body was not read completely.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The body is larger than the limit.
    TooLarge,
    /// The connection was lost within the body, or the body cannot be decoded.
    Broken(HttpProblem),
}

/// Reads the whole body, unless it is larger than `limit` bytes. The returned buffer is overwritten when it is dropped.
/// The chunks that `reqwest` received from the socket cannot be overwritten from here.
pub async fn read_whole(response: Response, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let mut body = Zeroizing::new(Vec::new());
    read_into(&mut body, response, limit).await?;
    Ok(body)
}

/// Appends the body of `response` to `body`. If the connection is lost or this future is dropped, `body` has the part
/// received until then.
pub(crate) async fn read_into(
    body: &mut Zeroizing<Vec<u8>>,
    mut response: Response,
    limit: usize,
) -> Result<(), ReadError> {
    loop {
        match response.chunk().await {
            Ok(None) => return Ok(()),
            Ok(Some(chunk)) => {
                let wanted = body.len().saturating_add(chunk.len());
                if wanted > limit {
                    return Err(ReadError::TooLarge);
                }
                if wanted > body.capacity() {
                    // Move to a larger buffer by hand: a `Vec` that grows by itself frees its old buffer without
                    // overwriting the secret in it.
                    let mut larger = Zeroizing::new(Vec::with_capacity(wanted.next_power_of_two()));
                    larger.extend_from_slice(body);
                    *body = larger;
                }
                body.extend_from_slice(&chunk);
            }
            Err(error) => return Err(ReadError::Broken(HttpProblem::in_answer(&error))),
        }
    }
}
