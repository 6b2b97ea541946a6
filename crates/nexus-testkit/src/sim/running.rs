//! The serving thread and its connections.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::server::{Core, OpenConnection, respond};
use super::socket::{Ending, Socket};

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
        // Bind on the caller's thread, so that `start` reports a taken port.
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        // A runtime of its own lets the server answer even while the caller blocks another one.
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
            // Clients send the default port in no header, so the URL must not name it.
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
            // An error means that the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has already been printed.
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
            // Either the process has no free descriptor, or the client has left. Wait a moment and accept the next client.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Without this, the system delays small writes, and the pace of a reply would not reach the client.
        let _ = stream.set_nodelay(true);
        let core = Arc::clone(&core);
        #[cfg(feature = "tls")]
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Count before the TLS handshake, so that a test also sees connections that fail in it.
            let open = OpenConnection::count(Arc::clone(&core));
            let ending = Arc::new(Ending::default());
            let socket = Socket::new(stream, Arc::clone(&ending));
            #[cfg(feature = "tls")]
            if let Some(acceptor) = acceptor {
                if let Ok(stream) = acceptor.accept(socket).await {
                    connection(core, stream, ending).await;
                }
                drop(open);
                return;
            }
            connection(core, socket, ending).await;
            drop(open);
        });
    }
}

async fn connection<S>(core: Arc<Core>, stream: S, ending: Arc<Ending>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let core = Arc::clone(&core);
        let ending = Arc::clone(&ending);
        async move { respond(core, ending, request).await }
    });
    // An error means that the client disconnected, or that the script cut the connection.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
