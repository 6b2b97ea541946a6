//! One connection of a program in the sandbox.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::SandboxNetwork;
use super::gate::{GateDecision, judge, judge_second};
use super::http_head::{self, HttpHead, HttpRequestHead};
use super::own_networks::OwnNetworks;
use super::record::{RefusalReason, RefusedConnection};
use super::server_answer::{self, HelloAnswer};
use super::target::{RelayTarget, TargetHost};

/// Longest time from the first byte of a client to the end of its handshake message or its request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Longest time without a byte of the client, if a name is compared. It limits how long an idle connection keeps its slot.
const IDLE_TIME: Duration = Duration::from_secs(30);
/// Longest time from a client's TLS handshake message to the server's answer.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// Maximum number of pieces in which a head or a handshake message arrives. All bytes are parsed again after each.
const MAX_PIECES: usize = 512;
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
    /// The client sent nothing for too long.
    Idle,
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
                true if matches!(failed, RelayFailure::Idle) => false,
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
        for _ in 0..MAX_PIECES {
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
        Err(RelayFailure::Broken)
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
        let own = OwnNetworks::find().map_err(|error| {
            RelayFailure::Unreachable(format!("the addresses of this machine cannot be read: {error}"))
        })?;
        let (allowed, other): (Vec<IpAddr>, Vec<IpAddr>) = resolved
            .into_iter()
            .partition(|address| self.network.hosts.allows_resolved(*address, target.port, &own));
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
        let network: &SandboxNetwork = network;
        let (tell, answered) = oneshot::channel();
        let up = async {
            let mut first = judged(&mut from_client, seen, |bytes| judge(target, bytes)).await;
            if let Ok(JudgedBytes::Hello(hello)) = &first {
                to_server.write_all(hello).await?;
                network.record.sent(hello.len());
                let mut rest = seen.split_off(hello.len());
                let answer = timeout(ANSWER_TIME, answered).await;
                first = match answer.map_err(|_| RelayFailure::Broken)?.map_err(|_| RelayFailure::Broken)? {
                    // The second message could name another server.
                    HelloAnswer::RetryRequest => {
                        judged(&mut from_client, &mut rest, |bytes| judge_second(target, bytes))
                            .await
                            .map(|_| JudgedBytes::All(rest))
                    }
                    HelloAnswer::Other | HelloAnswer::Incomplete => Ok(JudgedBytes::All(rest)),
                };
            }
            let (JudgedBytes::All(first) | JudgedBytes::Hello(first)) =
                first.map_err(|failed| failed.recorded(network, target))?;
            to_server.write_all(&first).await?;
            network.record.sent(first.len());
            copy(&mut from_client, &mut to_server, |bytes| network.record.sent(bytes.len())).await
        };
        let mut watch = AnswerWatch { seen: Vec::new(), tell: Some(tell) };
        let down = copy(&mut from_server, &mut to_client, move |bytes| {
            network.record.received(bytes.len());
            watch.look(bytes);
        });
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
            copy(&mut from_client, &mut to_server, |bytes| network.record.sent(bytes.len())).await
        };
        let down = copy(&mut from_server, &mut to_client, |bytes| network.record.received(bytes.len()));
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
            RelayFailure::Broken | RelayFailure::Idle => {
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

/// First bytes of a client after their judgement.
enum JudgedBytes {
    /// All bytes so far, in the form for the server.
    All(Vec<u8>),
    /// A TLS handshake message. The server's answer decides about the bytes after it.
    Hello(Vec<u8>),
}

/// Reason why no bytes of a client are passed on.
enum JudgementFailure {
    Refused(GateDecision),
    Idle,
    Broken,
}

impl JudgementFailure {
    /// Adds a refusal to the record.
    fn recorded(self, network: &SandboxNetwork, target: &RelayTarget) -> RelayFailure {
        let (named, reason) = match self {
            Self::Idle => return RelayFailure::Idle,
            Self::Broken => return RelayFailure::Broken,
            Self::Refused(GateDecision::OtherServer(other)) => {
                (other, RefusalReason::OtherName { connected_to: target.host.to_string() })
            }
            Self::Refused(GateDecision::HiddenName) => (target.clone(), RefusalReason::HiddenName),
            Self::Refused(_) => (target.clone(), RefusalReason::NoName),
        };
        RelayFailure::Refused(network.record.refuse(&network.hosts, &named, reason))
    }
}

/// Looks at the first bytes of a server, and reports its answer once.
struct AnswerWatch {
    seen: Vec<u8>,
    tell: Option<oneshot::Sender<HelloAnswer>>,
}

impl AnswerWatch {
    fn look(&mut self, bytes: &[u8]) {
        let Some(tell) = self.tell.take() else { return };
        self.seen.extend_from_slice(bytes);
        match server_answer::read(&self.seen) {
            HelloAnswer::Incomplete => self.tell = Some(tell),
            // The receiver is gone if the client uses another protocol.
            answer => drop(tell.send(answer)),
        }
    }
}

/// Reads the client's first bytes until they are judged. `seen` has those so far.
async fn judged(
    client: &mut (impl AsyncRead + Unpin),
    seen: &mut Vec<u8>,
    judge: impl Fn(&[u8]) -> GateDecision,
) -> Result<JudgedBytes, JudgementFailure> {
    let mut until = None;
    for _ in 0..MAX_PIECES {
        match judge(seen) {
            GateDecision::Incomplete => {}
            GateDecision::Pass(bytes) => return Ok(JudgedBytes::All(bytes)),
            GateDecision::PassHello { bytes } => {
                return Ok(JudgedBytes::Hello(seen.get(..bytes).unwrap_or_default().to_owned()));
            }
            refused => return Err(JudgementFailure::Refused(refused)),
        }
        let read = match seen.is_empty() {
            // A client of some protocols waits for the server's first message.
            true => timeout(IDLE_TIME, client.read_buf(seen)).await.map_err(|_| JudgementFailure::Idle)?,
            false => {
                let until = *until.get_or_insert_with(|| Instant::now() + HEAD_TIME);
                timeout_at(until, client.read_buf(seen)).await.unwrap_or(Ok(0))
            }
        };
        match read {
            Ok(0) if seen.is_empty() => return Ok(JudgedBytes::All(Vec::new())),
            Ok(0) => break,
            Ok(_) => {}
            Err(_) => return Err(JudgementFailure::Broken),
        }
    }
    Err(JudgementFailure::Refused(GateDecision::NoServer))
}

/// Copies bytes until their end, and passes the end on.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    mut count: impl FnMut(&[u8]),
) -> Result<(), RelayFailure> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            to.shutdown().await?;
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
        count(&buffer[..read]);
    }
}

#[cfg(test)]
mod tests;
