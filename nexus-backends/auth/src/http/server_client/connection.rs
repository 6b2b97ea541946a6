//! One connection, and one exchange on it after the other.

use std::{
    future::{Future as _, poll_fn},
    pin::{Pin, pin},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::Incoming,
    client::conn::{TrySendError, http1},
};
use tokio::runtime::{Handle, Id};

use crate::http::connector::Stream;
use crate::http::problem::{MAX_HEADERS, MAX_READ_BYTES};

/// A connection, driven by the one who waits for its answer.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None`: it is closed. The reader of the answer may still have bytes that were read from it.
    driver: Option<http1::Connection<Stream, Full<Bytes>>>,
    /// The runtime that reports its events. While that runtime is idle, the connection makes no progress in any
    /// other.
    runtime: Option<Id>,
}

/// The runtime that this is called in.
pub(super) fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|runtime| runtime.id())
}

impl Connection {
    pub(super) async fn over(stream: Stream) -> hyper::Result<Box<Self>> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_READ_BYTES)
            .max_headers(MAX_HEADERS)
            .handshake(stream)
            .await?;
        Ok(Box::new(Self { sender, driver: Some(driver), runtime: runtime() }))
    }

    /// Returns true if it can be used in this runtime.
    pub(super) fn is_of(&self, runtime: Option<Id>) -> bool {
        self.runtime == runtime
    }

    /// Sends a request and waits for the head of its answer. The error gives the request back if nothing of it was
    /// written.
    pub(super) async fn exchange(
        mut self: Box<Self>,
        request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Box<Self>), TrySendError<Request<Full<Bytes>>>> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|context| {
            self.drive(context);
            answer.as_mut().poll(context)
        });
        let answer = answer.await?;
        Ok((answer, self))
    }

    /// Writes and reads as far as it goes.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        // The future that waits for the answer, or the reader of the body, gets the error.
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(context).is_ready()
        {
            self.driver = None;
        }
    }

    /// Returns true if it is open, and nothing is left to write or to read.
    pub(super) fn is_free(&mut self, context: &mut Context<'_>) -> bool {
        self.drive(context);
        self.driver.is_some() && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(())))
    }
}
