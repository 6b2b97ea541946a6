//! The server: a listener and its connections, polled by the owner.

use std::{convert::Infallible, fmt, future::Future, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::net::{TcpListener, TcpSocket};

use crate::{
    connections::{Connections, ServerLimits},
    handler::RequestHandler,
};

/// Connections that the system queues before they are accepted. Source: our own choice: the most that systems allow, since any
/// program may flood the port.
const BACKLOG: u32 = 4096;
/// Pause after an accept that failed, such as without free descriptors. Source: our own choice.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Opens a port. Port 0 is any free one.
///
/// # Errors
///
/// The system does not give the port.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that starts again takes its port at once, although connections of its predecessor are still being closed.
    #[cfg(unix)]
    socket.set_reuseaddr(address.port() != 0)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// A server whose connections, head sizes and times are bounded. It works only while [`BoundedServer::serve`],
/// [`BoundedServer::during`] or [`BoundedServer::finish`] is polled. Each of them may be dropped and called again: connections
/// resume.
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

    /// The handler of its requests.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The handler of its requests, to be used while the server runs.
    pub fn shared_handler(&self) -> Arc<H> {
        Arc::clone(&self.handler)
    }

    /// Answers requests for as long as it is polled.
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

    /// Closes the port and waits until all connections have ended, or for `at_most`.
    pub async fn finish(mut self, at_most: Duration) {
        self.close();
        let rest = async {
            while !self.connections.is_empty() {
                self.step().await;
            }
        };
        // Idle clients leave their connections open.
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
