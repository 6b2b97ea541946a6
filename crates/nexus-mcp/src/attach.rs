//! Serves stdio through an HTTP server that already runs: forwards each line to the server, and writes the server's answers.
//!
//! The carrier parses only what it needs for that: which lines are requests, which requests are cancelled, and the MCP session
//! that the server named.

use std::{
    collections::HashMap,
    future::Future,
    io::{self, BufReader},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming as Body,
    client::conn::http1,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use nexus_core::{CancelToken, message_line::MessageLine};
use rmcp::model::{ErrorData, RequestId};
use thiserror::Error;
use tokio::{net::TcpStream, sync::mpsc, task::JoinSet};

use super::{
    http::{PATH, SESSION_HEADER},
    line::MAX_LINE_BYTES,
    message::{Incoming, NotUnderstood, too_long},
    server_file::{RunningServer, ServerFile, ServerFileError},
    stdio::{LineWriter, StdioEnd, own_streams, read_lines},
    token::{HttpToken, TokenError},
    wire,
};

/// Longest event accepted from the server, in bytes. The server's answers are much shorter.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// Reason why no server can be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// No server runs, or its file cannot be used.
    #[error(transparent)]
    Server(#[from] ServerFileError),
    /// The server's token cannot be read.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The server accepts no connection.
    #[error("the server of process {} does not answer at {}: end it, and start it again", .0.pid, .0.address)]
    Unreachable(RunningServer, #[source] io::Error),
    /// The standard streams of this process cannot be taken over.
    #[error("the standard streams cannot be opened")]
    Streams(#[from] io::Error),
}

/// Serves over the standard input and output of this process, through the HTTP server `name` of a home. Ends when the input
/// ends, the output cannot be written or `ended` completes. The server and the work that calls began continue.
///
/// # Errors
///
/// [`AttachError`], before any input is read.
pub async fn attach(
    home: &Path,
    name: &str,
    ended: impl Future<Output = ()>,
) -> Result<StdioEnd, AttachError> {
    let running = ServerFile::running(home, name)?;
    let token = HttpToken::load(&ServerFile::token_path(home, name))?;
    let reached = TcpStream::connect(running.address).await;
    // Only a check, because each message later gets a connection of its own.
    drop(reached.map_err(|error| AttachError::Unreachable(running.clone(), error))?);
    let (input, output) = own_streams()?;
    let mut lines = read_lines(BufReader::new(input))?;
    let mut writer = LineWriter::start(output)?;
    let carrier = Arc::new(Carrier { running, token, session: Mutex::default(), waiting: Mutex::default() });
    let mut carried = JoinSet::new();
    let mut ended = std::pin::pin!(ended);
    let end = loop {
        let line = tokio::select! {
            // `biased`: check the reasons to stop first, so that a client with many lines cannot delay them.
            biased;
            () = &mut ended => break StdioEnd::Asked,
            error = writer.failed() => break StdioEnd::OutputFailed(error),
            // Remove finished exchanges, or the set would grow with every message.
            Some(_) = carried.join_next() => continue,
            line = lines.recv() => line,
        };
        let line = match line {
            None => break StdioEnd::InputClosed,
            Some(Err(error)) => break StdioEnd::InputFailed(error),
            Some(Ok(MessageLine::Whole(line))) => line,
            Some(Ok(MessageLine::TooLong { id })) => {
                let NotUnderstood { id, error } = too_long(MAX_LINE_BYTES, id);
                let output = writer.lines.clone();
                carried.spawn(async move {
                    let _ = output.send(wire::error_message(id, error)).await;
                });
                continue;
            }
        };
        let message = Incoming::read(&line);
        let is_first = matches!(&message, Ok(Incoming::Request { method, .. }) if method == "initialize");
        let carrying = Arc::clone(&carrier).carry(message.ok(), line, writer.lines.clone());
        if is_first {
            // Later messages need the MCP session that this request creates, so wait for it.
            carrying.await;
        } else {
            carried.spawn(carrying);
        }
    };
    carried.shutdown().await;
    match writer.finish().await {
        Some(error) => Ok(StdioEnd::OutputFailed(error)),
        None => Ok(end),
    }
}

/// Forwards messages to the server.
struct Carrier {
    running: RunningServer,
    token: HttpToken,
    session: Mutex<Option<HeaderValue>>,
    waiting: Mutex<HashMap<RequestId, CancelToken>>,
}

impl Carrier {
    /// Forwards one line, and writes the answers to it.
    async fn carry(self: Arc<Self>, message: Option<Incoming>, line: Vec<u8>, output: mpsc::Sender<Bytes>) {
        if let Some(Incoming::Notification { method, params }) = &message
            && method == "notifications/cancelled"
        {
            let id = params.get("requestId").and_then(|id| serde_json::from_value(id.clone()).ok());
            if let Some(end) = id.and_then(|id: RequestId| lock(&self.waiting).remove(&id)) {
                // Ending the exchange closes the connection, which tells the server that the call is cancelled.
                end.cancel();
            }
            return;
        }
        let id = match message {
            Some(Incoming::Request { id, .. }) => Some(id),
            _ => None,
        };
        let end = CancelToken::new();
        if let Some(id) = &id {
            // Before the request is sent, so that a cancellation finds the request during its whole exchange.
            lock(&self.waiting).insert(id.clone(), end.clone());
        }
        let carried = tokio::select! {
            carried = self.post(line, &output) => carried,
            () = end.cancelled() => Ok(()),
        };
        if let Some(id) = id {
            lock(&self.waiting).remove(&id);
            if let Err(error) = carried {
                let problem = format!(
                    "the server at {} did not answer ({error}). If it is running, its work continues: call \
                     the tools for lists and status. If not, restart it with --http",
                    self.running.address
                );
                let _ = output
                    .send(wire::error_message(Some(id), ErrorData::internal_error(problem, None)))
                    .await;
            }
        }
    }

    async fn post(&self, line: Vec<u8>, output: &mpsc::Sender<Bytes>) -> io::Result<()> {
        let stream = TcpStream::connect(self.running.address).await?;
        let (mut client, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let mut request = Request::post(PATH)
            .header(HOST, self.running.address.to_string())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .header(AUTHORIZATION, format!("Bearer {}", self.token.expose()));
        if let Some(session) = &*lock(&self.session) {
            request = request.header(SESSION_HEADER, session);
        }
        let request = request.body(Full::new(Bytes::from(line))).map_err(io::Error::other)?;
        let exchange = async {
            let response = client.send_request(request).await.map_err(io::Error::other)?;
            if let Some(session) = response.headers().get(SESSION_HEADER) {
                *lock(&self.session) = Some(session.clone());
            }
            self.pass_on(response, output).await
        };
        // Keep connection and request in one future, so that dropping it closes the connection.
        let mut exchange = std::pin::pin!(exchange);
        tokio::select! {
            biased;
            passed = &mut exchange => passed,
            // The connection may end first. The exchange then still reads the part that has arrived.
            _ = connection => exchange.await,
        }
    }

    async fn pass_on(&self, response: Response<Body>, output: &mpsc::Sender<Bytes>) -> io::Result<()> {
        let status = response.status();
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_stream = kind.starts_with("text/event-stream");
        if !is_stream && !kind.starts_with("application/json") {
            return match status {
                // The server accepts a notification with an empty answer.
                status if status.is_success() => Ok(()),
                StatusCode::UNAUTHORIZED => Err(io::Error::other("it does not know the token of this home")),
                status => Err(io::Error::other(format!("it answered {status}"))),
            };
        }
        let mut body = response.into_body();
        let mut events = EventStreamParser::default();
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(io::Error::other)?.into_data() else { continue };
            if is_stream {
                for message in events.take(&piece)? {
                    let _ = output.send(message).await;
                }
                continue;
            }
            if whole.len() + piece.len() > MAX_EVENT_BYTES {
                return Err(io::Error::other("its answer is too large"));
            }
            whole.extend_from_slice(&piece);
        }
        if !whole.is_empty() {
            let _ = output.send(whole.freeze()).await;
        }
        Ok(())
    }
}

/// Parses a stream of events in the form that our server writes: one line of data per event.
#[derive(Debug, Default)]
struct EventStreamParser(Vec<u8>);

impl EventStreamParser {
    fn take(&mut self, piece: &[u8]) -> io::Result<Vec<Bytes>> {
        self.0.extend_from_slice(piece);
        let mut messages = Vec::new();
        let mut used = 0;
        while let Some(end) = memchr::memchr(b'\n', &self.0[used..]) {
            let line = &self.0[used..used + end];
            if let Some(data) = line.strip_prefix(b"data: ") {
                messages.push(Bytes::copy_from_slice(data));
            }
            used += end + 1;
        }
        // One removal per piece: the rest moves once, not with each line.
        self.0.drain(..used);
        if self.0.len() > MAX_EVENT_BYTES {
            return Err(io::Error::other("its answer is too large"));
        }
        Ok(messages)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_they_come() {
        let stream =
            b": open\n\nevent: message\ndata: {\"a\":1}\n\n: \n\nevent: message\ndata: {\"b\":2}\n\n";
        for size in 1..stream.len() {
            let mut events = EventStreamParser::default();
            let taken: Vec<_> = stream.chunks(size).flat_map(|piece| events.take(piece).unwrap()).collect();
            assert_eq!(taken, [&b"{\"a\":1}"[..], b"{\"b\":2}"]);
        }
    }
}
