//! A TCP proxy whose connections can be cut, refused, delayed, stalled and throttled.

#![allow(dead_code, reason = "a kit: not every test needs all of it")]

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::acceptor::Acceptor;

/// Maximum bytes of one read.
const CHUNK_BYTES: usize = 16 * 1024;
/// Maximum bytes in flight in one direction of one connection. Above it the proxy reads no more.
const IN_FLIGHT_BYTES: usize = 1024 * 1024;
/// Writes of a throttled direction per second.
const WRITES_PER_SECOND: u64 = 50;

/// A TCP proxy on loopback, for any protocol. Its settings hold for open connections too, and can change at any time.
///
/// A server of a cluster tells clients the addresses of all servers; a client that shall stay behind its proxy connects with
/// `ignore_discovered_servers`.
#[derive(Debug)]
pub(crate) struct Proxy {
    acceptor: Acceptor,
    to_server: OneWay,
    to_client: OneWay,
}

/// The direction in which bytes are forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
    Both,
}

/// State of one direction of all connections.
#[derive(Clone, Debug)]
struct OneWay {
    settings: watch::Sender<Settings>,
    forwarded_bytes: Arc<AtomicU64>,
}

/// Settings of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Settings {
    delay: Duration,
    stalled: bool,
    /// For each connection. `None` is no limit.
    bytes_per_second: Option<u64>,
}

impl Proxy {
    /// Listens on a free port, and forwards to `server` without any fault.
    pub(crate) async fn in_front_of(server: SocketAddr) -> Self {
        let (to_server, to_client) = (OneWay::new(), OneWay::new());
        let ways = (to_server.clone(), to_client.clone());
        let acceptor = Acceptor::in_front_of(server, move |client, server| {
            let (to_server, to_client) = ways.clone();
            forward_both(client, server, to_server, to_client)
        });
        Self { acceptor: acceptor.await, to_server, to_client }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// The URL for clients of a server without TLS.
    pub(crate) fn url(&self) -> String {
        format!("nats://{}", self.address())
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        self.acceptor.connections()
    }

    /// Closes all connections, and returns when they are closed. What was read and not yet forwarded is lost.
    pub(crate) async fn cut(&self) {
        self.acceptor.cut().await;
    }

    /// Lets the operating system refuse new connections. Open ones stay.
    pub(crate) async fn refuse(&self) {
        self.acceptor.refuse().await;
    }

    /// Accepts new connections again, on the same port.
    pub(crate) async fn admit(&self) {
        self.acceptor.admit().await;
    }

    /// Forwards what is read from now on after `delay`. The order stays.
    pub(crate) fn delay(&self, direction: Direction, delay: Duration) {
        self.set(direction, |settings| settings.delay = delay);
    }

    /// Reads and forwards nothing until [`Self::resume`]. Nothing is lost. If one side closes its connection, the other side
    /// does not notice it.
    pub(crate) fn stall(&self, direction: Direction) {
        self.set(direction, |settings| settings.stalled = true);
    }

    /// Ends a stall.
    pub(crate) fn resume(&self, direction: Direction) {
        self.set(direction, |settings| settings.stalled = false);
    }

    /// Forwards at most this many bytes per second of each connection. `None` ends the limit.
    pub(crate) fn throttle(&self, direction: Direction, bytes_per_second: Option<u64>) {
        assert_ne!(bytes_per_second, Some(0), "a direction that forwards nothing is stalled");
        self.set(direction, |settings| settings.bytes_per_second = bytes_per_second);
    }

    /// Bytes that were forwarded since the start, over all connections.
    pub(crate) fn forwarded_bytes(&self, direction: Direction) -> u64 {
        self.ways(direction).map(|way| way.forwarded_bytes.load(Ordering::Relaxed)).sum()
    }

    fn set(&self, direction: Direction, change: impl Fn(&mut Settings)) {
        for way in self.ways(direction) {
            way.settings.send_modify(&change);
        }
    }

    fn ways(&self, direction: Direction) -> impl Iterator<Item = &OneWay> {
        let to_server = (direction != Direction::ToClient).then_some(&self.to_server);
        let to_client = (direction != Direction::ToServer).then_some(&self.to_client);
        to_server.into_iter().chain(to_client)
    }
}

impl OneWay {
    fn new() -> Self {
        Self { settings: watch::Sender::default(), forwarded_bytes: Arc::default() }
    }
}

async fn forward_both(
    client: TcpStream,
    server: TcpStream,
    to_server: OneWay,
    to_client: OneWay,
) -> io::Result<()> {
    let (from_client, client) = client.into_split();
    let (from_server, server) = server.into_split();
    tokio::try_join!(forward(from_client, server, &to_server), forward(from_server, client, &to_client))?;
    Ok(())
}

/// Bytes that were read, when to write them, and their permit to be in flight.
type Chunk = (Instant, Bytes, OwnedSemaphorePermit);

async fn forward(from: OwnedReadHalf, to: OwnedWriteHalf, way: &OneWay) -> io::Result<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::try_join!(
        read(from, way.settings.subscribe(), sender),
        write(to, way.settings.subscribe(), receiver, &way.forwarded_bytes),
    )?;
    Ok(())
}

async fn read(
    from: OwnedReadHalf,
    mut settings: watch::Receiver<Settings>,
    chunks: mpsc::UnboundedSender<Chunk>,
) -> io::Result<()> {
    let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_BYTES));
    loop {
        let permit = Arc::clone(&in_flight).acquire_many_owned(CHUNK_BYTES as u32).await;
        let mut permit = permit.map_err(io::Error::other)?;
        flowing(&mut settings).await?;
        from.readable().await?;
        if settings.borrow().stalled {
            continue;
        }
        let mut chunk = BytesMut::with_capacity(CHUNK_BYTES);
        let length = match from.try_read_buf(&mut chunk) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            length => length?,
        };
        drop(permit.split(CHUNK_BYTES.saturating_sub(length)));
        let due = Instant::now() + settings.borrow().delay;
        // The end is a chunk too, of no bytes: it is as late as the others.
        if chunks.send((due, chunk.freeze(), permit)).is_err() || length == 0 {
            return Ok(());
        }
    }
}

async fn write(
    mut to: OwnedWriteHalf,
    mut settings: watch::Receiver<Settings>,
    mut chunks: mpsc::UnboundedReceiver<Chunk>,
    forwarded_bytes: &AtomicU64,
) -> io::Result<()> {
    while let Some((due, mut chunk, _permit)) = chunks.recv().await {
        sleep_until(due).await;
        flowing(&mut settings).await?;
        while !chunk.is_empty() {
            let limit = settings.borrow().bytes_per_second;
            let most = limit.map_or(u64::MAX, |limit| (limit / WRITES_PER_SECOND).max(1));
            let part = chunk.split_to(chunk.len().min(usize::try_from(most).unwrap_or(usize::MAX)));
            to.write_all(&part).await?;
            forwarded_bytes.fetch_add(part.len() as u64, Ordering::Relaxed);
            if let Some(limit) = limit {
                sleep(Duration::from_secs_f64(part.len() as f64 / limit as f64)).await;
            }
            flowing(&mut settings).await?;
        }
    }
    to.shutdown().await
}

/// Waits until the direction is not stalled.
async fn flowing(settings: &mut watch::Receiver<Settings>) -> io::Result<()> {
    settings.wait_for(|settings| !settings.stalled).await.map_err(io::Error::other)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(150);
    /// What takes no time is over by then.
    const BOUND: Duration = Duration::from_secs(30);
    /// As many times `SHORT` are twice the bound.
    const MANY: usize = 400;

    /// A server that sends back what it reads, and a proxy before it.
    async fn echo() -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = connection.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        Proxy::in_front_of(address).await
    }

    async fn exchange(connection: &mut TcpStream, bytes: &[u8]) -> io::Result<Duration> {
        let began = Instant::now();
        let mut answer = vec![0; bytes.len()];
        let (mut from, mut to) = connection.split();
        tokio::try_join!(to.write_all(bytes), from.read_exact(&mut answer))?;
        assert!(answer == bytes, "the bytes were changed");
        Ok(began.elapsed())
    }

    #[tokio::test]
    async fn bytes_pass_unchanged_and_are_counted() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        let bytes: Vec<u8> = (0..3 * IN_FLIGHT_BYTES).map(|index| (index % 251) as u8).collect();
        exchange(&mut connection, &bytes).await.unwrap();
        assert_eq!(proxy.forwarded_bytes(Direction::ToServer), bytes.len() as u64);
        assert_eq!(proxy.forwarded_bytes(Direction::Both), 2 * bytes.len() as u64);
        assert_eq!(proxy.connections(), 1);
    }

    #[tokio::test]
    async fn an_end_passes_after_all_bytes() {
        let proxy = echo().await;
        proxy.delay(Direction::ToClient, SHORT);
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        connection.write_all(b"last words").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "last words");
    }

    #[tokio::test]
    async fn open_connections_are_cut_and_new_ones_are_not() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection, b"before").await.unwrap();
        proxy.cut().await;
        assert_eq!(proxy.connections(), 0);
        exchange(&mut connection, b"after").await.unwrap_err();
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection, b"anew").await.unwrap();
    }

    #[tokio::test]
    async fn new_connections_are_refused_and_open_ones_stay() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection, b"before").await.unwrap();
        proxy.refuse().await;
        let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        exchange(&mut connection, b"still").await.unwrap();
        proxy.admit().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection, b"anew").await.unwrap();
    }

    #[tokio::test]
    async fn each_direction_has_its_delay_and_delays_do_not_add_up() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.delay(Direction::Both, SHORT);
        let took = exchange(&mut connection, b"there and back").await.unwrap();
        assert!(took >= 2 * SHORT, "{took:?}");
        // Many chunks wait at once. One after the other they would take twice the bound.
        let took = exchange(&mut connection, &vec![0; MANY * CHUNK_BYTES]).await.unwrap();
        assert!(took >= 2 * SHORT && took < BOUND, "{took:?}");
        proxy.delay(Direction::Both, Duration::ZERO);
        let began = Instant::now();
        for _ in 0..MANY / 2 {
            exchange(&mut connection, b"at once").await.unwrap();
        }
        assert!(began.elapsed() < BOUND, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn a_stall_holds_everything_and_loses_nothing() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection, b"before").await.unwrap();
        proxy.stall(Direction::ToClient);
        connection.write_all(b"held").await.unwrap();
        let mut answer = [0; 4];
        timeout(SHORT, connection.read_exact(&mut answer)).await.unwrap_err();
        assert_eq!(proxy.forwarded_bytes(Direction::ToServer), 10);
        assert_eq!(proxy.forwarded_bytes(Direction::ToClient), 6);
        proxy.resume(Direction::ToClient);
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"held");
    }

    #[tokio::test]
    async fn a_throttled_direction_takes_its_time() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.throttle(Direction::ToServer, Some(10_000));
        let took = exchange(&mut connection, &[0; 3_000]).await.unwrap();
        assert!(took >= Duration::from_millis(250), "{took:?}");
        proxy.throttle(Direction::ToServer, None);
        // Throttled, they would take twice the bound.
        let took = exchange(&mut connection, &[0; 600_000]).await.unwrap();
        assert!(took < BOUND, "{took:?}");
    }
}
