//! Reads a small response whole, within a bound.

use reqwest::Response;
use zeroize::Zeroizing;

use super::HttpProblem;

/// Why an answer was not read to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is larger than it may be.
    TooLarge,
    /// It broke off, or cannot be decoded.
    Broken(HttpProblem),
}

/// The whole body, unless it is larger than `limit` bytes. What was read is overwritten when it is dropped; the
/// pieces as they came from the socket are not within reach.
pub async fn read_whole(response: Response, limit: usize) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let mut body = Zeroizing::new(Vec::new());
    read_into(&mut body, response, limit).await?;
    Ok(body)
}

/// Appends the body of `response` to `body`, which has the received part even if the body breaks off or this
/// future is dropped.
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
                    // A vector that grows by itself leaves its old bytes behind.
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
