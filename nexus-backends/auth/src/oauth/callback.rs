//! The loopback address to which the browser returns.
//!
//! Everything runs within the future of the sign-in: dropping it closes the port and every connection at once.
//! Silent callers block nothing: each has its own connection and time limit, and above a number of connections
//! the oldest is closed.

use std::{future::Future, net::Ipv4Addr, time::Duration};

use nexus_core::Secret;
use nexus_http::{BoundedServer, ServerLimits};
use tokio::{net::TcpListener, sync::mpsc};

use super::issuer::Redirect;
use super::page::BrowserPage;
use super::redirect::{AuthorizationResponse, RedirectEvent, RedirectValidator};

/// Time that a browser has to send its request. Source: our own choice: a browser on this machine needs almost
/// none.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection. Source: our own choice, above the longest time of an exchange.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest wait until the browser has its page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most callers at once.
const MAX_CONNECTIONS: usize = 256;

/// A port that is listened on.
pub(super) struct Port {
    listener: TcpListener,
    number: u16,
    redirect_uri: String,
    path: String,
    /// The registered ports before this one, which were taken.
    pub(super) taken: Vec<u16>,
}

/// Waits for the answer of a browser.
pub(super) struct Callback {
    server: BoundedServer<RedirectValidator>,
    passed: mpsc::Receiver<RedirectEvent>,
}

impl Port {
    /// Listens on the first of the registered ports that is free.
    ///
    /// The error names the ports, with advice.
    pub(super) async fn open(redirect: &Redirect) -> Result<Self, String> {
        if !matches!(redirect.host.as_str(), "127.0.0.1" | "localhost") {
            return Err("the registered address must be on this machine: 127.0.0.1 or localhost".into());
        }
        if !redirect.path.starts_with('/') || redirect.path.contains(['?', '#']) {
            return Err("the registered path must begin with `/`, and must not contain `?` or `#`".into());
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
            "no registered port of 127.0.0.1 can be opened ({}): end the other sign-in that uses it, or sign \
             in with a device code, which needs no port",
            ports.join(", ")
        ))
    }

    /// Returns the address for the issuer, which must be the same in both requests.
    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Begins to wait for the answer with this state.
    pub(super) fn wait_for(self, state: Secret) -> Callback {
        let (waiting, passed) = mpsc::channel(2);
        let validator = RedirectValidator::new(self.number, self.path, state, waiting);
        let limits = ServerLimits::one_request(MAX_CONNECTIONS, HEAD_TIMEOUT, CONNECTION_TIMEOUT);
        let server = BoundedServer::new(self.listener, validator, limits);
        Callback { server, passed }
    }
}

impl Callback {
    /// Answers callers until the validator accepts one, and returns what it accepted.
    pub(super) async fn next(&mut self) -> RedirectEvent {
        let passed = self.server.during(self.passed.recv()).await;
        match passed {
            Some(passed) => passed,
            // The validator has accepted its one redirect.
            None => match self.server.serve().await {},
        }
    }

    /// Answers callers while `work` runs.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.server.during(work).await
    }

    /// Closes the port, shows the page to the browser that brought the answer, and ends.
    pub(super) async fn finish(mut self, arrival: AuthorizationResponse, page: BrowserPage) {
        self.server.close();
        // A browser that was closed meanwhile gets no page.
        if arrival.page.send(page).is_err() {
            return;
        }
        // A browser that does not read its page does not delay the sign-in.
        let shown = tokio::time::timeout(PAGE_TIMEOUT, arrival.connection.ended());
        let _ = self.server.during(shown).await;
    }
}
