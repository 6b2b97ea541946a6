//! Transport to a server: streamable HTTP without encryption, one connection for each request.

use std::{collections::HashMap, io, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode, Uri,
    body::Incoming,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue},
};
use hyper_util::rt::TokioIo;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::http_header::{HEADER_LAST_EVENT_ID, HEADER_SESSION_ID},
        streamable_http_client::{
            SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::{Sse, SseStream};

type Failure = StreamableHttpError<io::Error>;

/// Headers in the type of the transport.
type Headers = HashMap<HeaderName, HeaderValue>;

/// Reaches a server on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

/// Headers of every request.
struct Bearing<'a> {
    session: Option<&'a str>,
    token: Option<&'a str>,
    others: Headers,
}

impl Plain {
    async fn send(
        method: Method,
        uri: &str,
        bearing: Bearing<'_>,
        accept: &'static str,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, Failure> {
        let uri: Uri = uri.parse().map_err(other)?;
        let authority = uri.authority().ok_or_else(|| other("a server without an address"))?.clone();
        let mut request = Request::builder()
            .method(method)
            .uri(uri.path_and_query().map_or("/", |path| path.as_str()))
            .header(HOST, authority.as_str())
            .header(ACCEPT, accept);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = bearing.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(session) = bearing.session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        for (name, value) in bearing.others {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(other)?;
        let stream = tokio::net::TcpStream::connect(authority.as_str()).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(other)?;
        // If the connection fails, `send_request` returns the error.
        tokio::spawn(connection);
        sender.send_request(request).await.map_err(other)
    }
}

impl StreamableHttpClient for Plain {
    type Error = io::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        others: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let bearing = Bearing { session: session.as_deref(), token: token.as_deref(), others };
        let body = serde_json::to_vec(&message)?;
        let accept = "application/json, text/event-stream";
        let response = Self::send(Method::POST, &uri, bearing, accept, body).await?;
        let status = response.status();
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(Failure::SessionExpired);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let (session, kind) = (header(HEADER_SESSION_ID), header(CONTENT_TYPE.as_str()).unwrap_or_default());
        if status.is_success() && kind.starts_with("text/event-stream") {
            return Ok(StreamableHttpPostResponse::Sse(events(response), session));
        }
        let body = response.into_body().collect().await.map_err(other)?.to_bytes();
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if status.is_success() && body.is_empty() => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) => Err(refused(status, &body)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        others: Headers,
    ) -> Result<(), Failure> {
        let bearing = Bearing { session: Some(&session), token: token.as_deref(), others };
        // A server without sessions refuses. Then no session has to be deleted.
        Self::send(Method::DELETE, &uri, bearing, "*/*", Vec::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        mut others: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        if let Some(last_event) = last_event {
            let name = HeaderName::from_bytes(HEADER_LAST_EVENT_ID.as_bytes()).map_err(other)?;
            others.insert(name, HeaderValue::from_str(&last_event).map_err(other)?);
        }
        let bearing = Bearing { session: session.as_deref(), token: token.as_deref(), others };
        let response = Self::send(Method::GET, &uri, bearing, "text/event-stream", Vec::new()).await?;
        match response.status() {
            status if status.is_success() => Ok(events(response)),
            StatusCode::METHOD_NOT_ALLOWED => Err(Failure::ServerDoesNotSupportSse),
            status => Err(refused(status, &[])),
        }
    }
}

fn events(response: Response<Incoming>) -> BoxStream<'static, Result<Sse, SseError>> {
    SseStream::new(response.into_body()).boxed()
}

fn refused(status: StatusCode, body: &[u8]) -> Failure {
    other(format!("HTTP {status}: {}", String::from_utf8_lossy(body)))
}

fn other(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::Client(io::Error::other(error))
}
