//! Loopback server to which the browser returns.
//!
//! The server runs within the future of the sign-in: dropping that future closes the port and every connection at once.
//! Silent clients block nothing. Each has its own connection and time limit, and above a maximum number of connections
//! the oldest is closed.

use std::{future::Future, net::Ipv4Addr, time::Duration};

use nexus_core::Secret;
use nexus_http::{BoundedServer, ServerLimits};
use tokio::{net::TcpListener, sync::mpsc};

use super::issuer::Redirect;
use super::page::BrowserPage;
use super::redirect::{AuthorizationResponse, RedirectEvent, RedirectValidator};

/// Time within which a browser must send its request. Source: our own choice: a browser on this machine needs almost no
/// time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest life of a connection. Source: our own choice, above the longest time of an exchange.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(45);
/// Longest wait for the browser to receive its page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of simultaneous connections.
const MAX_CONNECTIONS: usize = 256;

/// Open port of the callback server.
pub(super) struct Port {
    listener: TcpListener,
    number: u16,
    redirect_uri: String,
    path: String,
    /// Registered ports that were tried first and are in use.
    pub(super) taken: Vec<u16>,
}

/// Callback server that waits for the browser's redirect.
pub(super) struct Callback {
    server: BoundedServer<RedirectValidator>,
    passed: mpsc::Receiver<RedirectEvent>,
}

impl Port {
    /// Listens on the first registered port that is free.
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
            // Listen on the loopback interface alone, because the redirect has the code.
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

    /// Returns the redirect URI. The authorization request and the token request must send the same one.
    pub(super) fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// Starts to accept requests, and waits for the redirect with this state.
    pub(super) fn wait_for(self, state: Secret) -> Callback {
        // One slot is for the response and one for the stranger, so that neither send waits.
        let (waiting, passed) = mpsc::channel(2);
        let validator = RedirectValidator::new(self.number, self.path, state, waiting);
        let limits = ServerLimits::one_request(MAX_CONNECTIONS, HEAD_TIMEOUT, CONNECTION_TIMEOUT);
        let server = BoundedServer::new(self.listener, validator, limits);
        Callback { server, passed }
    }
}

impl Callback {
    /// Serves requests until the validator accepts one, and returns the accepted event.
    pub(super) async fn next(&mut self) -> RedirectEvent {
        let passed = self.server.during(self.passed.recv()).await;
        match passed {
            Some(passed) => passed,
            // The channel is closed because the validator has accepted its one redirect.
            None => match self.server.serve().await {},
        }
    }

    /// Serves requests while `work` runs.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.server.during(work).await
    }

    /// Closes the port, and sends the page to the browser that brought the redirect.
    pub(super) async fn finish(mut self, arrival: AuthorizationResponse, page: BrowserPage) {
        // Close the port first, so that no further request arrives while the page is sent.
        self.server.close();
        // The browser's connection was closed meanwhile, so no page is needed.
        if arrival.page.send(page).is_err() {
            return;
        }
        // A browser that does not read its page does not delay the sign-in.
        let shown = tokio::time::timeout(PAGE_TIMEOUT, arrival.connection.ended());
        let _ = self.server.during(shown).await;
    }
}
