//! A client of one server over HTTP/1.1, for answers that stream.
//!
//! It uses `hyper` and not `reqwest`, so that the read buffer has a bound: `reqwest` has no setting for it, and
//! by default the buffer grows to 400 KiB for each stream that is read too slowly. The future that waits for an
//! answer also drives its connection, so no task beside the turn's has to wake for each piece of a stream.

mod body;
mod connection;
mod pool;

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{
    HeaderValue, Request, Response, Uri,
    header::{CONTENT_ENCODING, CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION},
    uri::{PathAndQuery, Scheme},
};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::proxy::matcher::Intercept;

pub use self::body::IncomingBody;
use self::connection::Connection;
use self::pool::Pool;
use super::connector::Connector;
use super::problem::{HttpError, HttpProblem};

/// A client of one server. It follows no redirect, and keeps its connections for a while.
pub struct ServerClient {
    server: Uri,
    host: Option<HeaderValue>,
    proxy: Option<Intercept>,
    connector: Connector,
    pool: Arc<Pool>,
}

impl ServerClient {
    pub(super) fn new(server: &Uri, proxy: Option<Intercept>, connector: Connector) -> Self {
        let host = server.authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok());
        Self { server: server.clone(), host, proxy, connector, pool: Arc::default() }
    }

    /// Sends a request, whose URI is the full URI at this server, and returns when the head of the answer has
    /// arrived.
    ///
    /// Replaces a pooled connection that was closed before a byte of the request was written. Never sends a
    /// request twice after one byte of it was written. Dropping the future, or the body before its end, closes
    /// the connection.
    ///
    /// # Errors
    ///
    /// [`HttpError`]: the connection could not be opened, or was lost before the answer, or the answer is not HTTP.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<IncomingBody>, HttpError> {
        let mut request = self.addressed(request);
        while let Some(kept) = self.pool.take() {
            match kept.exchange(request).await {
                Ok((answer, connection)) => return Ok(self.decoded(answer, connection)),
                Err(mut failed) => match failed.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(lost(failed.into_error())),
                },
            }
        }
        let stream = self.connector.connect(&self.server, self.proxy.as_ref()).await?;
        let connection = Connection::over(stream).await.map_err(lost)?;
        let (answer, connection) =
            connection.exchange(request).await.map_err(|failed| lost(failed.into_error()))?;
        Ok(self.decoded(answer, connection))
    }

    /// Returns the request in its form on the wire: with a `Host`, and with the full URI for a proxy that reads
    /// the request.
    fn addressed(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        if let Some(host) = &self.host {
            head.headers.entry(HOST).or_insert_with(|| host.clone());
        }
        match &self.proxy {
            Some(proxy) if self.server.scheme() != Some(&Scheme::HTTPS) => {
                if let Some(authorization) = proxy.basic_auth() {
                    head.headers.entry(PROXY_AUTHORIZATION).or_insert_with(|| authorization.clone());
                }
            }
            _ => {
                let path = head.uri.path_and_query().cloned();
                head.uri = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
            }
        }
        Request::from_parts(head, Full::new(body))
    }

    /// The answer, with gzip undone, and without the headers that then no longer fit.
    fn decoded(&self, answer: Response<Incoming>, connection: Box<Connection>) -> Response<IncomingBody> {
        let (mut head, incoming) = answer.into_parts();
        let is_packed = head.headers.get(CONTENT_ENCODING).is_some_and(is_gzip);
        if is_packed {
            head.headers.remove(CONTENT_ENCODING);
            head.headers.remove(CONTENT_LENGTH);
        }
        let body = IncomingBody::new(incoming, connection, Arc::downgrade(&self.pool), is_packed);
        Response::from_parts(head, body)
    }
}

impl fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerClient").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Source: RFC 9110, sections 8.4.1 (case) and 8.4.1.3 (`x-gzip`).
fn is_gzip(encoding: &HeaderValue) -> bool {
    [&b"gzip"[..], b"x-gzip"].iter().any(|name| encoding.as_bytes().eq_ignore_ascii_case(name))
}

fn lost(error: hyper::Error) -> HttpError {
    HttpError::new(HttpProblem::without_answer(&error), error)
}
