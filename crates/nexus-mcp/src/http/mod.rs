//! Serving over streamable HTTP.

mod answer;
mod guard;
mod visitors;

use std::{convert::Infallible, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::{
    Request, StatusCode, body::Incoming as Body, header::HeaderValue, http::request::Parts,
    server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use uuid::Uuid;

use self::{
    answer::HttpAnswer,
    guard::{HeadGuard, MAX_BODY_BYTES, METHOD_HEADER, Rejection, VERSION_HEADER, Wanted, only},
    visitors::{Visitor, Visitors},
};
use super::{
    endpoint::{ClientSide, Endpoint},
    message::Incoming,
    reply::Reply,
    service::ToolService,
    stdio::offers_roots,
    token::HttpToken,
    wire::RequestMeta,
};

pub(crate) use guard::{PATH, SESSION_HEADER};

/// How long a body may take to come. Source: our own choice: a program on this machine needs none.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long no connection is taken after one could not be, as without free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long answers that are there may take to be sent once the server ends.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// Largest head of a request, in bytes. Source: our own bound; a client's has a few hundred.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// What ends the name of an MCP session whose client says its roots: nothing else of a session is known, so none is lost.
const WITH_ROOTS: &str = ".roots";
/// Longest name of an MCP session that is looked at, in bytes.
const MAX_SESSION_BYTES: usize = 128;

/// What an HTTP server listens on and takes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Where it listens. Port 0 is any free one.
    pub address: SocketAddr,
    /// What clients bear.
    pub token: HttpToken,
    /// Names of this machine that requests may be sent to, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// How long [`ToolService::stop`] and the calls that run may take at the end.
    pub stop_within: Duration,
}

impl HttpSettings {
    /// No other names, and ten seconds to end.
    pub fn new(address: SocketAddr, token: HttpToken) -> Self {
        Self { address, token, hosts: Vec::new(), stop_within: Duration::from_secs(10) }
    }
}

/// A server over streamable HTTP: one path, `/mcp`, where messages are sent with POST. Calls are answered with a stream of events
/// that opens at once; what a call began goes on when its client leaves.
///
/// Every request bears the token, names this server as its host, and comes from no web page of another origin.
pub struct HttpServer {
    listener: TcpListener,
    handler: Arc<HttpHandler>,
    stop_within: Duration,
}

impl std::fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpServer").field("address", &self.handler.guard.address).finish_non_exhaustive()
    }
}

impl HttpServer {
    /// Listens. Nothing is answered before [`HttpServer::serve`].
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub async fn bind(service: Arc<dyn ToolService>, settings: HttpSettings) -> io::Result<Self> {
        let listener = TcpListener::bind(settings.address).await?;
        let guard =
            HeadGuard { token: settings.token, address: listener.local_addr()?, hosts: settings.hosts };
        let handler = HttpHandler { endpoint: Endpoint::new(service), guard, visitors: Visitors::new() };
        Ok(Self { listener, handler: Arc::new(handler), stop_within: settings.stop_within })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.handler.guard.address
    }

    /// The URL that clients are given.
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address())
    }

    /// Serves until `ended` is done; then has the service stop.
    pub async fn serve(self, ended: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut ended = std::pin::pin!(ended);
        loop {
            tokio::select! {
                biased;
                () = &mut ended => break,
                // Those that are done are forgotten.
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(Arc::clone(&self.handler).converse(stream));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a connection cannot be taken");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        if tokio::time::timeout(self.stop_within, self.handler.endpoint.stop()).await.is_err() {
            tracing::error!(within = ?self.stop_within, "the calls did not end in time");
        }
        let rest = async { while connections.join_next().await.is_some() {} };
        // Connections are kept open by clients that have nothing to ask.
        let _ = tokio::time::timeout(LAST_ANSWERS, rest).await;
    }
}

/// Answers the requests of all connections.
struct HttpHandler {
    endpoint: Endpoint,
    guard: HeadGuard,
    visitors: Visitors,
}

impl HttpHandler {
    /// Serves one connection to its end.
    async fn converse(self: Arc<Self>, stream: TcpStream) {
        let visitor = self.visitors.begin();
        let service = service_fn(|request| self.respond(request, &visitor));
        let conversation = http1::Builder::new()
            // Known clients keep connections for as long as they like; strangers have a time of their own.
            .header_read_timeout(None)
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        tokio::select! {
            biased;
            // What a client does wrong on the way is its own business.
            _ = conversation => {}
            () = visitor.has_to_go() => {}
        }
    }

    async fn respond(&self, request: Request<Body>, visitor: &Visitor) -> Result<HttpAnswer, Infallible> {
        Ok(self.answer(request, visitor).await.unwrap_or_else(|rejection| {
            tracing::debug!(?rejection, "a request was turned away");
            answer::rejected(rejection)
        }))
    }

    async fn answer(&self, request: Request<Body>, visitor: &Visitor) -> Result<HttpAnswer, Rejection> {
        let (head, body) = request.into_parts();
        self.guard.identify(&head)?;
        if !self.visitors.know(visitor) {
            return Err(Rejection::Busy);
        }
        match HeadGuard::wanted(&head)? {
            // Nothing hangs on a session.
            Wanted::End => Ok(answer::empty(StatusCode::NO_CONTENT)),
            Wanted::Message { streams } => {
                let body = read(body).await?;
                self.message(&head, &body, streams).await
            }
        }
    }

    async fn message(&self, head: &Parts, body: &[u8], streams: bool) -> Result<HttpAnswer, Rejection> {
        let message = match Incoming::read(body) {
            Ok(message) => message,
            Err(refused) => return Ok(answered(Endpoint::refuse(refused))),
        };
        let mut session = None;
        if let Incoming::Request { id, method, params } = &message {
            if let Some(answer) = head_mismatch(head, id, method, params)? {
                return Ok(answer);
            }
            if method == "initialize" {
                let roots = if offers_roots(params) { WITH_ROOTS } else { "" };
                session = HeaderValue::try_from(format!("{}{roots}", Uuid::new_v4())).ok();
            }
        } else {
            guard::is_spoken_by(&head.headers, None)?;
        }
        let named = only(&head.headers, SESSION_HEADER).unwrap_or_default();
        let named = if named.len() > MAX_SESSION_BYTES { "" } else { named };
        // Without a stream there is no way to ask the client anything.
        let client =
            ClientSide { session: named.to_owned(), offers_roots: streams && named.ends_with(WITH_ROOTS) };
        let mut answer = match self.endpoint.receive(message, &client) {
            Reply::Stream(mut messages) if !streams => {
                let mut last = None;
                while let Some(message) = messages.next().await {
                    last = Some(message);
                }
                match last {
                    Some(last) => answer::message(last, crate::reply::ReplyStatus::Answered),
                    None => answer::empty(StatusCode::ACCEPTED),
                }
            }
            reply => answered(reply),
        };
        if let Some(session) = session {
            answer.headers_mut().insert(SESSION_HEADER, session);
        }
        Ok(answer)
    }
}

fn answered(reply: Reply) -> HttpAnswer {
    match reply {
        Reply::Nothing => answer::empty(StatusCode::ACCEPTED),
        Reply::Message(message, status) => answer::message(message, status),
        Reply::Stream(messages) => answer::streamed(messages),
    }
}

/// What a request's head says of its message has to be so, where it says it.
fn head_mismatch(
    head: &Parts,
    id: &RequestId,
    method: &str,
    params: &serde_json::Value,
) -> Result<Option<HttpAnswer>, Rejection> {
    let mismatch = |problem: String| {
        let error = ErrorData::new(ErrorCode::HEADER_MISMATCH, problem, None);
        Some(answered(Reply::error(id.clone(), error, true)))
    };
    if head.headers.contains_key(METHOD_HEADER) && only(&head.headers, METHOD_HEADER) != Some(method) {
        return Ok(mismatch("the header Mcp-Method is not the message's `method`".to_owned()));
    }
    // A message of an unknown revision is answered by what says which are spoken.
    let Ok(meta) = RequestMeta::read(params) else { return Ok(None) };
    if method == "initialize" {
        return Ok(None);
    }
    match (&meta.revision, only(&head.headers, VERSION_HEADER)) {
        (Some(revision), Some(named)) if revision != named => {
            return Ok(mismatch("the header MCP-Protocol-Version is not the revision in `_meta`".to_owned()));
        }
        _ => guard::is_spoken_by(&head.headers, meta.revision.as_deref())?,
    }
    Ok(None)
}

/// Reads a body, as far as it is within its bound and in time.
async fn read(mut body: Body) -> Result<BytesMut, Rejection> {
    let whole = async {
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            // Trailers say nothing that is asked for.
            let Ok(piece) = frame.map_err(|_broken| Rejection::Unread)?.into_data() else { continue };
            if whole.len() + piece.len() > MAX_BODY_BYTES {
                return Err(Rejection::TooLarge);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole)
    };
    tokio::time::timeout(BODY_TIMEOUT, whole).await.unwrap_or(Err(Rejection::Unread))
}
