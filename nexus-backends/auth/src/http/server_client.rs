//! HTTP/1.1 client of one server, for streamed responses.
//!
//! The client uses `hyper` because its read buffer can be limited. `reqwest` has no setting for the buffer, which by
//! default grows to 400 KiB for each stream that is read too slowly. The future that waits for a response also drives
//! the connection, so no second task has to wake for each chunk of a stream.

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

/// Client of one server. It follows no redirect, and keeps idle connections open for a while.
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

    /// Sends a request and returns when the head of the response has arrived. The request must have the full URI at
    /// this server.
    ///
    /// If a pooled connection was closed before any byte of the request was written, the request is sent on another
    /// connection. A request of which one byte was written is never sent again. Dropping the future closes the
    /// connection, as does dropping the body before its end.
    ///
    /// # Errors
    ///
    /// [`HttpError`]: the connection could not be opened, the connection was lost before the response, or the response
    /// is not HTTP.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<IncomingBody>, HttpError> {
        let mut request = self.addressed(request);
        // The server may have closed an idle connection. Try the next one only if the request was not sent.
        while let Some(kept) = self.pool.take() {
            match kept.exchange(request).await {
                Ok((answer, connection)) => return Ok(self.decoded(answer, connection)),
                Err(mut failed) => match failed.take_message() {
                    // `hyper` returns the request only if no byte of it was written, so sending it again is safe.
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

    /// Returns the request in its wire form: with a `Host` header, and with the full URI if an HTTP proxy forwards the
    /// request.
    fn addressed(&self, request: Request<Bytes>) -> Request<Full<Bytes>> {
        let (mut head, body) = request.into_parts();
        if let Some(host) = &self.host {
            head.headers.entry(HOST).or_insert_with(|| host.clone());
        }
        // Over plain HTTP, a proxy needs the whole address. Every other request contains only the path.
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

    /// Returns the response with a body that decodes gzip, without the headers that describe the encoded body.
    fn decoded(&self, answer: Response<Incoming>, connection: Box<Connection>) -> Response<IncomingBody> {
        let (mut head, incoming) = answer.into_parts();
        let is_packed = head.headers.get(CONTENT_ENCODING).is_some_and(is_gzip);
        if is_packed {
            // Both headers describe the compressed body.
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

/// Returns true if the header value names gzip. Source: RFC 9110, sections 8.4.1 (case) and 8.4.1.3 (`x-gzip`).
fn is_gzip(encoding: &HeaderValue) -> bool {
    [&b"gzip"[..], b"x-gzip"].iter().any(|name| encoding.as_bytes().eq_ignore_ascii_case(name))
}

fn lost(error: hyper::Error) -> HttpError {
    HttpError::new(HttpProblem::without_answer(&error), error)
}
