//! Body of a streamed response.

use std::{
    fmt,
    pin::Pin,
    sync::Weak,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use hyper::body::Incoming;

use super::connection::Connection;
use super::pool::Pool;
use crate::http::gunzip::Gunzip;
use crate::http::problem::{HttpError, HttpProblem};

/// Body of a response. When it is read to its end, its connection returns to the pool. Dropping it earlier closes the
/// connection.
pub struct IncomingBody {
    incoming: Incoming,
    /// `None` after the connection was returned to the pool.
    connection: Option<Box<Connection>>,
    pool: Weak<Pool>,
    gunzip: Option<Box<Gunzip>>,
}

impl IncomingBody {
    pub(super) fn new(
        incoming: Incoming,
        connection: Box<Connection>,
        pool: Weak<Pool>,
        is_packed: bool,
    ) -> Self {
        let gunzip = is_packed.then(|| Box::new(Gunzip::new()));
        Self { incoming, connection: Some(connection), pool, gunzip }
    }

    /// Returns the next decoded chunk, which is never empty, or `None` at the regular end of the body.
    ///
    /// # Errors
    ///
    /// [`HttpError`]: the connection was lost, or the framing or the gzip encoding is invalid.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, HttpError>>> {
        loop {
            if let Some(gunzip) = &mut self.gunzip
                && let Some(decoded) = gunzip.next().map_err(undecodable).transpose()
            {
                return Poll::Ready(Some(decoded));
            }
            let chunk = match ready!(self.poll_frame(context)) {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(error)) => {
                    // A broken connection must not return to the pool.
                    self.connection = None;
                    let error = HttpError::new(HttpProblem::in_answer(&error), error);
                    return Poll::Ready(Some(Err(error)));
                }
                None => {
                    self.give_back(context);
                    let rest = self.gunzip.take().map(|mut gunzip| gunzip.finish().map_err(undecodable));
                    return Poll::Ready(
                        rest.filter(|rest| rest.as_ref().map_or(true, |rest| !rest.is_empty())),
                    );
                }
            };
            match &mut self.gunzip {
                Some(gunzip) => gunzip.push(chunk),
                // An empty chunk, or a frame with trailers: read on.
                None if chunk.is_empty() => {}
                None => return Poll::Ready(Some(Ok(chunk))),
            }
        }
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // A frame that already arrived needs no read from the connection.
        if let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(context) {
            return Poll::Ready(frame);
        }
        // No task polls the connection, so the reader of the body has to.
        if let Some(connection) = &mut self.connection {
            connection.drive(context);
        }
        Pin::new(&mut self.incoming).poll_frame(context)
    }

    fn give_back(&mut self, context: &mut Context<'_>) {
        // A connection cannot be reused if it is closed or still writes the request.
        if let Some(mut connection) = self.connection.take()
            && let Some(pool) = self.pool.upgrade()
            && connection.is_free(context)
        {
            pool.put(connection);
        }
    }
}

impl fmt::Debug for IncomingBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IncomingBody").finish_non_exhaustive()
    }
}

fn undecodable(error: std::io::Error) -> HttpError {
    HttpError::new(HttpProblem::Undecodable, error)
}
