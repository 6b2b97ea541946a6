//! The connections of a proxy or a relay.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

/// Joins a client's connection with one to the server, until either ends.
type Join = dyn Fn(TcpStream, TcpStream) -> BoxFuture<'static, io::Result<()>> + Send + Sync;

/// Accepts connections on loopback, makes one to a server for each, and joins the two.
///
/// A client is accepted also if the server is down; its connection is closed then. Dropped, all connections are closed.
pub(crate) struct Acceptor {
    address: SocketAddr,
    server: SocketAddr,
    join: Arc<Join>,
    connections: Arc<Mutex<JoinSet<()>>>,
    accepting: Mutex<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor")
            .field("address", &self.address)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Listens on a free port.
    pub(crate) async fn in_front_of<F>(
        server: SocketAddr,
        join: impl Fn(TcpStream, TcpStream) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let acceptor = Self {
            address: listener.local_addr().unwrap(),
            server,
            join: Arc::new(move |client, server| join(client, server).boxed()),
            connections: Arc::default(),
            accepting: Mutex::new(None),
        };
        acceptor.accept_from(listener);
        acceptor
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections are open.
    pub(crate) fn connections(&self) -> usize {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        forget_ended(&mut connections);
        connections.len()
    }

    /// Closes all connections, and returns when they are closed. What was read and not yet forwarded is lost.
    pub(crate) async fn cut(&self) {
        let mut connections =
            std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner));
        connections.shutdown().await;
    }

    /// Stops listening: new connections are refused by the operating system, open ones stay.
    pub(crate) async fn refuse(&self) {
        let accepting = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(accepting) = accepting {
            accepting.abort();
            // Its listener is closed when it has ended, which is an error of a cancelled task.
            let _ = accepting.await;
            // A process that is being started has a copy of it until it is its own program.
            let began = Instant::now();
            while TcpStream::connect(self.address).await.is_ok() {
                assert!(began.elapsed() < Duration::from_secs(60), "somebody else listens on the port");
                sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// Listens again, on the same port.
    pub(crate) async fn admit(&self) {
        self.refuse().await;
        let began = Instant::now();
        // Another test may use the port for a moment, as that of a connection.
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    assert!(began.elapsed() < Duration::from_secs(60), "the port stays in use: {error}");
                    sleep(Duration::from_millis(5)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        self.accept_from(listener);
    }

    fn accept_from(&self, listener: TcpListener) {
        let (server, join) = (self.server, Arc::clone(&self.join));
        let connections = Arc::clone(&self.connections);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let join = Arc::clone(&join);
                let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
                forget_ended(&mut connections);
                connections.spawn(async move {
                    // A connection that fails ends as one that is closed: both sides notice.
                    let _ = connect(client, server, &*join).await;
                });
            }
        });
        *self.accepting.lock().unwrap_or_else(PoisonError::into_inner) = Some(accepting);
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        let accepting = self.accepting.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(accepting) = accepting {
            accepting.abort();
        }
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }
}

async fn connect(client: TcpStream, server: SocketAddr, join: &Join) -> io::Result<()> {
    let server = TcpStream::connect(server).await?;
    // Small writes are forwarded as they come, as they would be without a proxy.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    join(client, server).await
}

/// Forgets connections that have ended.
fn forget_ended(connections: &mut JoinSet<()>) {
    while connections.try_join_next().is_some() {}
}
