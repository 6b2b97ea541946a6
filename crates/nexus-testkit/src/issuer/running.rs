//! The serving thread and its connections.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::server::{Core, respond};

/// A serving thread; stopped when dropped.
#[derive(Debug)]
pub(super) struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Binds a listener. Also returns its address.
pub(super) fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

impl Running {
    pub(super) fn start(core: Arc<Core>, listener: TcpListener) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("nexus-issuer".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = accept(core, listener) => {}
                    _ = stopped => {}
                }
            });
            // Connections still open are closed with the runtime.
            runtime.shutdown_background();
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn stop(&mut self) {
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

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn accept(core: Arc<Core>, listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Either the process has no free descriptor, or the client has left. Wait a moment and accept the next client.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        tokio::spawn(connection(Arc::clone(&core), stream));
    }
}

async fn connection(core: Arc<Core>, stream: TcpStream) {
    let service = service_fn(move |request| respond(Arc::clone(&core), request));
    // An error here is a client that left, or a cut on purpose.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
