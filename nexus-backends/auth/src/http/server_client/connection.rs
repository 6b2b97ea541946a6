//! One connection, which handles one exchange at a time.

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

/// Connection that the future waiting for its response drives. No task of its own polls it.
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// `None` after the connection was closed. The body may still have unread bytes that arrived before.
    driver: Option<http1::Connection<Stream, Full<Bytes>>>,
    /// Runtime that reports the socket's events. While that runtime is idle, the connection makes no progress in any
    /// other.
    runtime: Option<Id>,
}

/// Returns the id of the current runtime.
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

    /// Returns true if the connection can be used in this runtime.
    pub(super) fn is_of(&self, runtime: Option<Id>) -> bool {
        self.runtime == runtime
    }

    /// Sends a request and waits for the head of the response. If nothing was written, the error contains the request.
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

    /// Writes and reads until the connection would block.
    pub(super) fn drive(&mut self, context: &mut Context<'_>) {
        // Ignore the error here: the future that waits for the response, or the reader of the body, gets it.
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(context).is_ready()
        {
            self.driver = None;
        }
    }

    /// Returns true if the connection is open and has nothing left to write or to read.
    pub(super) fn is_free(&mut self, context: &mut Context<'_>) -> bool {
        self.drive(context);
        self.driver.is_some() && matches!(self.sender.poll_ready(context), Poll::Ready(Ok(())))
    }
}
