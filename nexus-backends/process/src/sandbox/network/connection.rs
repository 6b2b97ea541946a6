//! One connection of a program in the sandbox.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};

use super::SandboxNetwork;
use super::gate::{GateDecision, judge};
use super::http_head::{self, HttpHead, HttpRequestHead};
use super::record::{RefusalReason, RefusedConnection};
use super::target::{RelayTarget, TargetHost};

/// Longest time from the first byte of a client to the end of its handshake message or its request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest time to resolve a name, and to connect to one address.
const CONNECT_TIME: Duration = Duration::from_secs(15);
/// Longest time to deliver a refusal.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Size of the buffer of each direction.
const BUFFER_BYTES: usize = 16 << 10;

/// One connection, until it is closed.
#[derive(Debug)]
pub(super) struct RelayedConnection {
    client: TcpStream,
    network: Arc<SandboxNetwork>,
}

/// Reason why a connection ended before both sides closed it.
#[derive(Debug)]
enum RelayFailure {
    Refused(RefusedConnection),
    /// No server was reached.
    Unreachable(String),
    /// A side closed the connection, or sent something that is not a request.
    Broken,
}

impl From<io::Error> for RelayFailure {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

impl RelayedConnection {
    pub(super) fn new(client: TcpStream, network: Arc<SandboxNetwork>) -> Self {
        Self { client, network }
    }

    /// Connects the client to the server that its address stands for.
    pub(super) async fn direct(mut self, target: RelayTarget) {
        let mut seen = Vec::new();
        if let Err(failed) = self.pass_direct(&target, &mut seen).await {
            // Only a client that speaks HTTP can read the reason.
            let speaks_http = match seen.is_empty() {
                true => self.read_head().await.is_ok(),
                false => matches!(http_head::read(&seen), HttpHead::Complete(_)),
            };
            if speaks_http {
                self.refuse(&failed).await;
            }
        }
    }

    async fn pass_direct(&mut self, target: &RelayTarget, seen: &mut Vec<u8>) -> Result<(), RelayFailure> {
        let server = self.connect(target).await?;
        self.pass(server, target, seen).await
    }

    /// Serves the client of the proxy: one `CONNECT` request, or one request for an `http:` URL.
    pub(super) async fn proxy(mut self) {
        if let Err(failed) = self.pass_proxied().await {
            self.refuse(&failed).await;
        }
    }

    async fn pass_proxied(&mut self) -> Result<(), RelayFailure> {
        let (head, rest) = self.read_head().await?;
        let is_tunnel = head.method == "CONNECT";
        let target = match is_tunnel {
            true => RelayTarget::of_authority(&head.target, None),
            false => head.absolute().and_then(|_| head.server()),
        };
        let target = target.ok_or(RelayFailure::Broken)?;
        if !self.network.hosts.allows(&target) {
            return Err(self.refused(&target, RefusalReason::NotListed));
        }
        let server = self.connect(&target).await?;
        if !is_tunnel {
            let first = [head.for_server(), rest].concat();
            return self.copy(server, first).await;
        }
        self.client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        let mut seen = rest;
        // The tunnel is established, so a refusal closes it without words.
        let _ = self.pass(server, &target, &mut seen).await;
        Ok(())
    }

    async fn read_head(&mut self) -> Result<(HttpRequestHead, Vec<u8>), RelayFailure> {
        let (mut bytes, until) = (Vec::new(), Instant::now() + HEAD_TIME);
        loop {
            let read = timeout_at(until, self.client.read_buf(&mut bytes)).await;
            if read.map_err(|_| RelayFailure::Broken)?? == 0 {
                return Err(RelayFailure::Broken);
            }
            match http_head::read(&bytes) {
                HttpHead::Incomplete => {}
                HttpHead::Complete(head) => {
                    let rest = bytes.split_off(head.bytes);
                    return Ok((head, rest));
                }
                HttpHead::Malformed | HttpHead::NotHttp => return Err(RelayFailure::Broken),
            }
        }
    }

    /// Connects to an address that was checked. The name is resolved only once, so a second answer of its server cannot lead
    /// elsewhere.
    async fn connect(&self, target: &RelayTarget) -> Result<TcpStream, RelayFailure> {
        let mut last = "it has no address".to_owned();
        for address in self.addresses(target).await?.into_iter().take(MAX_ADDRESSES) {
            match timeout(CONNECT_TIME, TcpStream::connect(address)).await {
                Ok(Ok(server)) => {
                    self.network.record.connected();
                    // Small writes of either side are passed on at once.
                    let _ = (server.set_nodelay(true), self.client.set_nodelay(true));
                    return Ok(server);
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = "the time is over".to_owned(),
            }
        }
        Err(RelayFailure::Unreachable(format!("{target} cannot be reached: {last}")))
    }

    /// Returns the addresses of a server that the list allows.
    async fn addresses(&self, target: &RelayTarget) -> Result<Vec<SocketAddr>, RelayFailure> {
        let at = |address: IpAddr| SocketAddr::new(address, target.port);
        let name = match &target.host {
            TargetHost::Address(address) => return Ok(vec![at(*address)]),
            TargetHost::ThisMachine => {
                return Ok(vec![at(Ipv4Addr::LOCALHOST.into()), at(Ipv6Addr::LOCALHOST.into())]);
            }
            TargetHost::Name(name) => name,
        };
        let given =
            self.network.resolved.iter().filter(|(known, _)| known == name).map(|(_, address)| address.ip());
        let mut resolved: Vec<IpAddr> = given.collect();
        if resolved.is_empty() {
            let unresolved =
                |reason: String| RelayFailure::Unreachable(format!("{name} has no address: {reason}"));
            let found = timeout(CONNECT_TIME, lookup_host((name.as_str(), target.port))).await;
            let found = found.map_err(|_| unresolved("the time is over".to_owned()))?;
            resolved
                .extend(found.map_err(|error| unresolved(error.to_string()))?.map(|address| address.ip()));
        }
        let (allowed, other): (Vec<IpAddr>, Vec<IpAddr>) = resolved
            .into_iter()
            .partition(|address| self.network.hosts.allows_resolved(*address, target.port));
        match (allowed.is_empty(), other.first()) {
            (true, Some(address)) => {
                Err(self.refused(target, RefusalReason::NotPublic(address.to_canonical())))
            }
            _ => Ok(allowed.into_iter().map(at).collect()),
        }
    }

    /// Passes bytes in both directions. Judges the first bytes of the client before it passes them. `seen` has the
    /// client's bytes so far. After a refusal, it has the refused bytes.
    async fn pass(
        &mut self,
        server: TcpStream,
        target: &RelayTarget,
        seen: &mut Vec<u8>,
    ) -> Result<(), RelayFailure> {
        let Self { client, network } = self;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            let first =
                judged(&mut from_client, target, seen).await.map_err(|judgement| match judgement {
                    Some(GateDecision::OtherServer(other)) => {
                        let reason = RefusalReason::OtherName { connected_to: target.host.to_string() };
                        RelayFailure::Refused(network.record.refuse(&network.hosts, &other, reason))
                    }
                    Some(_) => RelayFailure::Refused(network.record.refuse(
                        &network.hosts,
                        target,
                        RefusalReason::NoName,
                    )),
                    None => RelayFailure::Broken,
                })?;
            to_server.write_all(&first).await?;
            network.record.sent(first.len());
            copy(&mut from_client, &mut to_server, |bytes| network.record.sent(bytes)).await
        };
        let down = copy(&mut from_server, &mut to_client, |bytes| network.record.received(bytes));
        tokio::try_join!(up, down).map(drop)
    }

    /// Passes bytes in both directions, `first` before all others.
    async fn copy(&mut self, server: TcpStream, first: Vec<u8>) -> Result<(), RelayFailure> {
        let Self { client, network } = self;
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.into_split();
        let up = async {
            to_server.write_all(&first).await?;
            network.record.sent(first.len());
            copy(&mut from_client, &mut to_server, |bytes| network.record.sent(bytes)).await
        };
        let down = copy(&mut from_server, &mut to_client, |bytes| network.record.received(bytes));
        // Bytes may have reached the client, so it gets no reason.
        let _ = tokio::try_join!(up, down);
        Ok(())
    }

    fn refused(&self, target: &RelayTarget, reason: RefusalReason) -> RelayFailure {
        RelayFailure::Refused(self.network.record.refuse(&self.network.hosts, target, reason))
    }

    /// Sends the reason to a client that speaks HTTP.
    async fn refuse(&mut self, failed: &RelayFailure) {
        let (status, text) = match failed {
            RelayFailure::Refused(refused) => (
                "403 Forbidden",
                format!("the sandbox refused this: {refused}. Allowed hosts: {}", self.network.hosts),
            ),
            RelayFailure::Unreachable(reason) => ("502 Bad Gateway", reason.clone()),
            RelayFailure::Broken => {
                ("400 Bad Request", "this is no request for a server on the network".to_owned())
            }
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}\n",
            text.len() + 1
        );
        let deliver = async {
            self.client.write_all(answer.as_bytes()).await?;
            self.client.shutdown().await?;
            // Closing a socket with unread bytes would discard the answer.
            let mut rest = [0; 1024];
            while self.client.read(&mut rest).await? > 0 {}
            io::Result::Ok(())
        };
        let _ = timeout(REFUSAL_TIME, deliver).await;
    }
}

/// Reads the client's first bytes until they are judged, and returns the bytes for the server. Fails with the judgement, or
/// without one if the connection broke.
async fn judged(
    client: &mut (impl AsyncRead + Unpin),
    target: &RelayTarget,
    seen: &mut Vec<u8>,
) -> Result<Vec<u8>, Option<GateDecision>> {
    let mut until = None;
    loop {
        match judge(target, seen) {
            GateDecision::Incomplete => {}
            GateDecision::Pass(bytes) => return Ok(bytes),
            refused => return Err(Some(refused)),
        }
        let read = match seen.is_empty() {
            // A client of some protocols waits for the server's first message.
            true => client.read_buf(seen).await,
            false => {
                let until = *until.get_or_insert_with(|| Instant::now() + HEAD_TIME);
                timeout_at(until, client.read_buf(seen)).await.unwrap_or(Ok(0))
            }
        };
        match read {
            Ok(0) if seen.is_empty() => return Ok(Vec::new()),
            Ok(0) => return Err(Some(GateDecision::NoServer)),
            Ok(_) => {}
            Err(_) => return Err(None),
        }
    }
}

/// Copies bytes until their end, and passes the end on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    count: impl Fn(usize),
) -> Result<(), RelayFailure> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
        count(read);
    }
}
