//! The HTTP side: connections, routing to a dialect, and playing an [`Answer`] step by step.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::conversation::Conversation;
use super::fault::Cut;
use super::recording::{Ended, Purpose, RecordedRequest, Recording, Scripted};
use super::scenario::{Count, Scenario};
use super::wire::{Answer, Before, Step};
use super::{Dialect, anthropic, responses, xai};

/// How long bytes already written get to reach the client before a cut.
const FLUSH: Duration = Duration::from_millis(50);

/// What a dialect makes of a request.
pub(super) enum Route {
    /// A model call of a turn.
    Main(Conversation),
    /// A model call beside the turn, with its answer.
    Side(Conversation, Answer),
    /// A known endpoint, with its answer.
    Housekeeping(Answer),
    /// Nothing the dialect knows.
    Unknown,
}

/// What a dialect may look at.
pub(super) struct Arrival<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: &'a [(String, String)],
    pub(super) json: &'a Value,
    pub(super) models: &'a [String],
}

impl Arrival<'_> {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// A call that gets a scripted reply.
pub(super) struct ModelCall<'a> {
    /// Unique among the calls of this simulator; ids are made from it.
    pub(super) number: usize,
    pub(super) conversation: &'a Conversation,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) dialect: Dialect,
    pub(super) recording: Recording,
    script: Mutex<Script>,
    connections: AtomicUsize,
}

#[derive(Debug)]
struct Script {
    scenario: Arc<Scenario>,
    counts: HashMap<(Option<usize>, Option<String>), usize>,
}

impl Core {
    pub(super) fn new(dialect: Dialect, scenario: Scenario, log: bool) -> Self {
        Self {
            dialect,
            recording: Recording::new(log),
            script: Mutex::new(Script { scenario: Arc::new(scenario), counts: HashMap::new() }),
            connections: AtomicUsize::new(0),
        }
    }

    pub(super) fn set_scenario(&self, scenario: Scenario) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.scenario = Arc::new(scenario);
        script.counts.clear();
    }

    pub(super) fn open_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn scenario(&self) -> Arc<Scenario> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&script.scenario)
    }

    /// Takes the next place in the script for this conversation.
    fn take_turn(&self, conversation: &Conversation) -> Scripted {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let rule = script.scenario.rule_for(&conversation.user_texts());
        let key = match script.scenario.count {
            Count::Script => None,
            Count::Conversation => {
                conversation.id.clone().or_else(|| conversation.user_texts().into_iter().next())
            }
        };
        let count = script.counts.entry((rule, key)).or_insert(0);
        let index = *count;
        *count += 1;
        Scripted { rule, index }
    }

    /// Tells by path and headers whose client this is.
    fn dialect_of(&self, path: &str, headers: &[(String, String)]) -> Dialect {
        if self.dialect != Dialect::All {
            return self.dialect;
        }
        let has = |name: &str| headers.iter().any(|(header, _)| header.starts_with(name));
        let agent =
            headers.iter().find(|(header, _)| header == "user-agent").map_or("", |(_, value)| value.as_str());
        if has("x-grok-") || has("x-xai-") || agent.starts_with("grok") {
            Dialect::Xai
        } else if path.ends_with("/responses") || agent.contains("codex") || has("session-id") {
            Dialect::Responses
        } else if has("anthropic-") || path.contains("/messages") || path.contains("claude") {
            Dialect::Anthropic
        } else if path.ends_with("/models") {
            Dialect::Responses
        } else {
            Dialect::Anthropic
        }
    }
}

/// A serving thread.
pub(super) struct Running {
    address: SocketAddr,
    host: Option<String>,
    #[cfg(feature = "tls")]
    ca_pem: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Running {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Running")
            .field("address", &self.address)
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl Running {
    pub(super) fn start(
        core: Arc<Core>,
        address: SocketAddr,
        #[cfg(feature = "tls")] identity: Option<super::tls::Identity>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        #[cfg(feature = "tls")]
        let (host, ca_pem, acceptor) = match identity {
            Some(identity) => (Some(identity.host), Some(identity.ca_pem), Some(identity.acceptor)),
            None => (None, None, None),
        };
        #[cfg(not(feature = "tls"))]
        let host = None;
        let thread = std::thread::Builder::new().name("nexus-sim".into()).spawn(move || {
            let serving = accept(
                core,
                listener,
                #[cfg(feature = "tls")]
                acceptor,
            );
            runtime.block_on(async {
                tokio::select! {
                    _ = serving => {}
                    _ = stopped => {}
                }
            });
            // Connections still open are closed with the runtime.
            runtime.shutdown_background();
        })?;
        Ok(Self {
            address,
            host,
            #[cfg(feature = "tls")]
            ca_pem,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn root_url(&self) -> String {
        match &self.host {
            Some(host) if self.address.port() == 443 => format!("https://{host}"),
            Some(host) => format!("https://{host}:{}", self.address.port()),
            None => format!("http://{}", self.address),
        }
    }

    #[cfg(feature = "tls")]
    pub(super) fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread is gone already if nobody listens.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been printed; there is nothing to add.
            let _ = thread.join();
        }
    }
}

async fn accept(
    core: Arc<Core>,
    listener: TcpListener,
    #[cfg(feature = "tls")] acceptor: Option<tokio_rustls::TlsAcceptor>,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or the client left already: the next may fare better.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let core = Arc::clone(&core);
        #[cfg(feature = "tls")]
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            let open = OpenConnection::count(Arc::clone(&core));
            let reset = Arc::new(AtomicBool::new(false));
            let socket = Socket { stream, reset: Arc::clone(&reset) };
            #[cfg(feature = "tls")]
            if let Some(acceptor) = acceptor {
                if let Ok(stream) = acceptor.accept(socket).await {
                    connection(core, stream, reset).await;
                }
                drop(open);
                return;
            }
            connection(core, socket, reset).await;
            drop(open);
        });
    }
}

async fn connection<S>(core: Arc<Core>, stream: S, reset: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let core = Arc::clone(&core);
        let reset = Arc::clone(&reset);
        async move { respond(core, reset, request).await }
    });
    // An error here is a client that left, or a cut that the script asked for.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Broken>>>;

/// The connection ends here, as the script wants it.
#[derive(Debug)]
struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the script cuts the connection")
    }
}

impl std::error::Error for Broken {}

async fn respond(
    core: Arc<Core>,
    reset: Arc<AtomicBool>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Broken> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Broken)?.to_bytes();
    let headers: Vec<(String, String)> = parts
        .headers
        .iter()
        .map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        })
        .collect();
    let path = parts.uri.path().to_owned();
    let dialect = core.dialect_of(&path, &headers);
    let json: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let scenario = core.scenario();
    let incoming = Arrival {
        method: parts.method.as_str(),
        path: &path,
        headers: &headers,
        json: &json,
        models: &scenario.models,
    };
    let route = match dialect {
        Dialect::Anthropic | Dialect::All => anthropic::route(&incoming),
        Dialect::Responses => responses::route(&incoming),
        Dialect::Xai => xai::route(&incoming),
    };
    let (purpose, conversation, ready) = match route {
        Route::Main(conversation) => (Purpose::MainCall, conversation, None),
        Route::Side(conversation, answer) => (Purpose::SideCall, conversation, Some(answer)),
        Route::Housekeeping(answer) => (Purpose::Housekeeping, Conversation::default(), Some(answer)),
        Route::Unknown => (Purpose::Unknown, Conversation::default(), Some(unknown())),
    };
    let scripted = ready.is_none().then(|| core.take_turn(&conversation));
    let conversation = Arc::new(conversation);
    let json = Arc::new(json);
    let number = core.recording.add(RecordedRequest {
        number: 0,
        at: core.recording.elapsed(),
        method: parts.method.to_string(),
        query: parts.uri.query().map(str::to_owned),
        path,
        headers: headers.into(),
        body,
        json: Arc::clone(&json),
        dialect,
        purpose,
        conversation: Arc::clone(&conversation),
        scripted,
        status: None,
        ended: None,
    });
    let answer = match (ready, scripted) {
        (Some(answer), _) => answer,
        (None, scripted) => {
            let place = scripted.unwrap_or(Scripted { rule: None, index: 0 });
            let reply = scenario.reply(place.rule, place.index);
            let call = ModelCall { number, conversation: &conversation };
            match dialect {
                Dialect::Anthropic | Dialect::All => anthropic::answer(&call, &reply),
                Dialect::Responses => responses::answer(&call, &reply),
                Dialect::Xai => xai::answer(&call, &reply),
            }
        }
    };
    play(Playing { core, number, reset, done: false }, answer).await
}

fn unknown() -> Answer {
    Answer::json(
        404,
        &serde_json::json!({"error": {"type": "not_found_error", "message": "the simulator does not know this path"}}),
    )
}

/// An answer in progress; when dropped before its end, the client has left.
struct Playing {
    core: Arc<Core>,
    number: usize,
    reset: Arc<AtomicBool>,
    done: bool,
}

impl Playing {
    fn end(&mut self, ended: Ended) {
        self.done = true;
        self.core.recording.ended(self.number, ended);
    }
}

impl Drop for Playing {
    fn drop(&mut self) {
        if !self.done {
            self.core.recording.ended(self.number, Ended::HungUp);
        }
    }
}

async fn play(mut playing: Playing, answer: Answer) -> Result<Response<Body>, Broken> {
    match answer.before {
        Before::Wait(delay) if delay.is_zero() => {}
        Before::Wait(delay) => tokio::time::sleep(delay).await,
        // hyper drops this future when the client closes the connection.
        Before::Stall => std::future::pending().await,
        Before::Reset => {
            playing.reset.store(true, Ordering::SeqCst);
            playing.end(Ended::Cut);
            return Err(Broken);
        }
    }
    playing.core.recording.answered(playing.number, answer.status);
    let mut head = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        head = head.header(name, value);
    }
    let steps = futures::stream::unfold((playing, answer.steps), |(mut playing, mut steps)| async {
        let frame = loop {
            match steps.pop_front() {
                None => {
                    playing.end(Ended::Sent);
                    return None;
                }
                Some(Step::Send(bytes)) => {
                    if steps.is_empty() {
                        playing.end(Ended::Sent);
                    }
                    break Ok(Frame::data(bytes));
                }
                Some(Step::Wait(gap)) => tokio::time::sleep(gap).await,
                Some(Step::Stall(None)) => std::future::pending().await,
                Some(Step::Stall(Some(ping))) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    steps.push_front(Step::Stall(Some(ping.clone())));
                    break Ok(Frame::data(ping));
                }
                Some(Step::Cut(Cut::CleanEnd)) => {
                    playing.end(Ended::Cut);
                    return None;
                }
                Some(Step::Cut(cut)) => {
                    tokio::time::sleep(FLUSH).await;
                    playing.reset.store(cut == Cut::Reset, Ordering::SeqCst);
                    playing.end(Ended::Cut);
                    break Err(Broken);
                }
            }
        };
        Some((frame, (playing, steps)))
    });
    head.body(StreamBody::new(steps.boxed())).map_err(|_| Broken)
}

/// Counts a connection for as long as it lives.
struct OpenConnection(Arc<Core>);

impl OpenConnection {
    fn count(core: Arc<Core>) -> Self {
        core.connections.fetch_add(1, Ordering::SeqCst);
        core.recording.changed();
        Self(core)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::SeqCst);
        self.0.recording.changed();
    }
}

/// A TCP stream that can end by reset instead of by FIN.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            // With zero linger the close that follows sends RST.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
