//! The address on this machine that the browser is sent back to.
//!
//! Everything runs within the future of the sign-in: dropped, it closes the port and every connection at once. Callers
//! that say nothing hold up nobody: each has a connection to itself and a time, and beyond a number of them the oldest
//! goes.

use std::{
    collections::BTreeMap, future::Future, io, net::Ipv4Addr, pin::Pin, pin::pin, sync::Arc, time::Duration,
};

use futures::{
    future::{AbortHandle, abortable},
    stream::{FuturesUnordered, StreamExt as _},
};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use nexus_core::Secret;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use super::issuer::Redirect;
use super::page::BrowserPage;
use super::redirect::{AuthorizationResponse, RedirectEvent, RedirectValidator};

/// How long a issuer_client may take to say what it wants. Source: our own choice: a browser on this machine needs none.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may last in all. Source: our own choice, above the time that an exchange may take.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(45);
/// How long it is waited for until the browser has its page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Largest head of a request, in bytes. Source: our own bound; codes have some hundreds, cookies of other servers on
/// this machine a few thousand.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// How many callers there may be at once.
const MAX_CONNECTIONS: usize = 256;
/// Pause after a connection that could not be taken, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A port that is listened on.
pub(super) struct Port {
    listener: TcpListener,
    number: u16,
    redirect_uri: String,
    path: String,
    /// The registered ports before this one, which were taken.
    pub(super) taken: Vec<u16>,
}

/// Future that serves one connection and returns its number.
type ConnectionFuture = Pin<Box<dyn Future<Output = u64> + Send>>;

/// Waits for the answer of a browser.
pub(super) struct Callback {
    server: Server,
    passed: mpsc::Receiver<RedirectEvent>,
}

/// Answers callers.
struct Server {
    listener: TcpListener,
    validator: Arc<RedirectValidator>,
    connections: FuturesUnordered<ConnectionFuture>,
    /// How each connection is ended, the oldest first.
    ends: BTreeMap<u64, AbortHandle>,
    next: u64,
}

impl Port {
    /// Listens on the first of the registered ports that is free.
    ///
    /// The reason names the ports and the way out.
    pub(super) async fn open(redirect: &Redirect) -> Result<Self, String> {
        if !matches!(redirect.host.as_str(), "127.0.0.1" | "localhost") {
            return Err(
                "the registered address is not one of this machine: it is 127.0.0.1 or localhost".into()
            );
        }
        if !redirect.path.starts_with('/') || redirect.path.contains(['?', '#']) {
            return Err("the registered path must begin with `/`, and hold neither `?` nor `#`".into());
        }
        let mut taken = Vec::new();
        for port in &redirect.ports {
            let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).await else {
                taken.push(*port);
                continue;
            };
            let number = listener.local_addr().map_err(|error| error.to_string())?.port();
            let redirect_uri = format!("http://{}:{number}{}", redirect.host, redirect.path);
            return Ok(Self { listener, number, redirect_uri, path: redirect.path.clone(), taken });
        }
        if taken.is_empty() {
            return Err("no port is registered".into());
        }
        let ports: Vec<_> = taken.iter().map(u16::to_string).collect();
        Err(format!(
            "no registered port of 127.0.0.1 can be opened ({}): end the other sign-in that holds it, or sign in with \
             a device code, which needs none",
            ports.join(", ")
        ))
    }

    /// The address as it is told to the issuer, twice and the same.
    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Begins to wait for the answer with this state.
    pub(super) fn wait_for(self, state: Secret) -> Callback {
        let (waiting, passed) = mpsc::channel(2);
        let server = Server {
            listener: self.listener,
            validator: Arc::new(RedirectValidator::new(self.number, self.path, state, waiting)),
            connections: FuturesUnordered::new(),
            ends: BTreeMap::new(),
            next: 0,
        };
        Callback { server, passed }
    }
}

impl Callback {
    /// The next that the validator lets through.
    pub(super) async fn next(&mut self) -> RedirectEvent {
        loop {
            tokio::select! {
                Some(passed) = self.passed.recv() => return passed,
                () = self.server.step() => {}
            }
        }
    }

    /// Goes on answering while something is done.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = self.server.step() => {}
            }
        }
    }

    /// Closes the port, shows the page to the browser that brought the answer, and ends.
    pub(super) async fn finish(self, arrival: AuthorizationResponse, page: BrowserPage) {
        let Server { listener, mut connections, .. } = self.server;
        drop(listener);
        // A browser that was closed meanwhile gets no page.
        if arrival.page.send(page).is_err() {
            return;
        }
        let shown = async {
            while let Some(connection) = connections.next().await {
                if connection == arrival.connection {
                    break;
                }
            }
        };
        // A browser that does not read its page is not waited for: the sign-in is what counts.
        let _ = tokio::time::timeout(PAGE_TIMEOUT, shown).await;
    }
}

impl Server {
    /// Takes a connection, or goes on with those that there are.
    async fn step(&mut self) {
        tokio::select! {
            accepted = self.listener.accept() => match accepted {
                Ok((stream, _)) => self.take(stream),
                Err(error) if is_of_connection(&error) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(number) = self.connections.next(), if !self.connections.is_empty() => {
                self.ends.remove(&number);
            }
        }
    }

    fn take(&mut self, stream: TcpStream) {
        let number = self.next;
        self.next += 1;
        if self.ends.len() >= MAX_CONNECTIONS
            && let Some((_, oldest)) = self.ends.pop_first()
        {
            oldest.abort();
        }
        let (conversation, end) = abortable(converse(stream, self.validator.clone(), number));
        self.ends.insert(number, end);
        self.connections.push(Box::pin(async move {
            // Whether it came to its end or was ended, the connection is closed.
            let _ = conversation.await;
            number
        }));
    }
}

/// Whether a issuer_client left before it was taken.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Answers one request.
async fn converse(stream: TcpStream, validator: Arc<RedirectValidator>, number: u64) {
    let service = service_fn(|request| validator.respond(request, number));
    let conversation = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // What a issuer_client does wrong on the way is its own business, and the time of each is bounded.
    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, conversation).await;
}
