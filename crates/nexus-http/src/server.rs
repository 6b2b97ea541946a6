//! The server: a listener and its connections, polled by the owner.

use std::{convert::Infallible, fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpSocket};

use crate::{
    connections::{Connections, ServerLimits},
    handler::RequestHandler,
};

/// Maximum number of connections that the system queues before they are accepted. Source: our own choice, the largest number that systems
/// allow, because any program may flood the port.
const BACKLOG: u32 = 4096;
/// Pause after a failed accept, for example without free descriptors. Source: our own choice.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Opens a port. Port 0 means any free port.
///
/// # Errors
///
/// The system cannot open the port.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted server can open its port immediately, although connections of its predecessor are still closing.
    #[cfg(unix)]
    socket.set_reuseaddr(address.port() != 0)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A server with limits on connections, head sizes and times. It works only while [`BoundedServer::serve`],
/// [`BoundedServer::during`] or [`BoundedServer::finish`] is polled. A dropped future of these may be called again:
/// connections resume.
pub struct BoundedServer<H> {
    /// `None` once the port is closed.
    listener: Option<TcpListener>,
    handler: Arc<H>,
    connections: Connections,
}

impl<H: RequestHandler> BoundedServer<H> {
    /// Creates a server on an open port.
    pub fn new(listener: TcpListener, handler: H, limits: ServerLimits) -> Self {
        Self { listener: Some(listener), handler: Arc::new(handler), connections: Connections::new(limits) }
    }

    /// Returns the handler of the requests.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// Returns the handler of the requests, for use while the server runs.
    pub fn shared_handler(&self) -> Arc<H> {
        Arc::clone(&self.handler)
    }

    /// Answers requests while it is polled.
    pub async fn serve(&mut self) -> Infallible {
        loop {
            self.step().await;
        }
    }

    /// Answers requests while `work` runs, and returns its output.
    pub async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            done = work => done,
            never = self.serve() => match never {},
        }
    }

    /// Closes the port. Connections stay open.
    pub fn close(&mut self) {
        self.listener = None;
    }

    /// Closes the port and waits until all connections have ended, but at most `at_most`.
    pub async fn finish(mut self, at_most: Duration) {
        self.close();
        let rest = async {
            while !self.connections.is_empty() {
                self.step().await;
            }
        };
        // The time limit is needed because idle clients leave their connections open.
        let _ = tokio::time::timeout(at_most, rest).await;
    }

    async fn step(&mut self) {
        let pause = self.connections.make_room();
        let accepted = async {
            match &self.listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.connections.step(), if !self.connections.is_empty() => {}
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            accepted = accepted, if pause.is_none() => match accepted {
                Ok((stream, _)) => self.connections.take(stream, &self.handler),
                Err(error) if is_of_connection(&error) => {}
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Without a free descriptor, for example, every further attempt fails at once.
                    self.connections.rest_for(ACCEPT_PAUSE);
                }
            },
        }
    }
}

impl<H> fmt::Debug for BoundedServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedServer").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Returns true if the client left before its connection was accepted.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
