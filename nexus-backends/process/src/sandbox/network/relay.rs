//! Relay outside of the sandbox: accepts the connections of one run.
//!
//! It has a thread of its own. So it serves a program while the caller's runtime rests, and all connections are closed when the
//! drop of a run returns.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;

use super::SandboxNetwork;
use super::connection::RelayedConnection;
use super::opener::{OPENED, PLAN, SOCKET, SOCKETS_PER_MESSAGE};
use super::plan::{ListenerPurpose, NetworkPlan};
use crate::private_home::PrivateHome;

/// Maximum number of connections of one run at the same time. Further ones wait. Each takes two descriptors of the host. With the
/// maximum number of entries, eight runs at once take less than 1024.
const MAX_CONNECTIONS: usize = 24;
/// Pause after a failed accept, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Flags for receiving sockets. No child inherits them.
#[cfg(target_os = "linux")]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE: RecvFlags = RecvFlags::empty();

/// Socket of a run that the listening sockets arrive at.
#[derive(Debug)]
pub(in crate::sandbox) struct RelaySocket {
    listener: std::os::unix::net::UnixListener,
    plan: NetworkPlan,
    network: SandboxNetwork,
}

impl RelaySocket {
    /// Writes the files for the opener to the folder of a run. Blocks.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub(in crate::sandbox) fn prepare(network: &SandboxNetwork, folder: &PrivateHome) -> io::Result<Self> {
        let plan = NetworkPlan::new(&network.hosts);
        folder.write(PLAN, serde_json::to_vec(&plan.opening())?)?;
        // The address of a socket has at most 107 bytes, so it is named below an open folder.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder.path(), flags, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", opened.as_raw_fd());
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, plan, network: network.clone() })
    }

    /// Starts to serve the connections.
    ///
    /// # Errors
    ///
    /// Threads, memory or descriptors ran out.
    pub(in crate::sandbox) fn start(self) -> io::Result<SandboxRelay> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = serve(self.listener, self.plan, self.network) => {}
                }
            });
            // A resolver that does not answer must not delay the end.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("sandbox-relay".to_owned()).spawn(serve)?;
        Ok(SandboxRelay { stop: Some(stop), thread: Some(thread) })
    }
}

/// Relay of a running program. Dropping it ends all connections before the drop returns.
#[derive(Debug)]
pub(in crate::sandbox) struct SandboxRelay {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SandboxRelay {
    fn drop(&mut self) {
        // Dropping the sender wakes the thread.
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(socket: std::os::unix::net::UnixListener, plan: NetworkPlan, network: SandboxNetwork) {
    let listeners = match receive(socket, &plan).await {
        Ok(listeners) => listeners,
        Err(error) => {
            tracing::warn!(%error, "the network of a sandbox cannot be used");
            return;
        }
    };
    let (network, permits) = (Arc::new(network), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    // Dropping the set ends its tasks.
    let mut accepting = JoinSet::new();
    for (address, listener) in listeners {
        if let Some(purpose) = plan.listener(address) {
            accepting.spawn(accept(listener, purpose.clone(), Arc::clone(&network), Arc::clone(&permits)));
        }
    }
    while accepting.join_next().await.is_some() {}
}

/// Receives the listening sockets from the opener. Tells it the result, because without all of them the program must not start.
async fn receive(
    socket: std::os::unix::net::UnixListener,
    plan: &NetworkPlan,
) -> io::Result<Vec<(SocketAddr, TcpListener)>> {
    let (mut opener, _) = UnixListener::from_std(socket)?.accept().await?;
    let received = receive_all(&opener).await.and_then(|found| {
        // The kernel drops sockets for which the host has no free descriptor.
        let is_missing = |address| !found.iter().any(|(known, _)| *known == address);
        match plan.required().any(is_missing) {
            true => Err(Errno::MFILE.into()),
            false => Ok(found),
        }
    });
    let answer = received.as_ref().map_or_else(ToString::to_string, |_| OPENED.to_owned());
    opener.write_all(answer.as_bytes()).await?;
    received
}

async fn receive_all(opener: &tokio::net::UnixStream) -> io::Result<Vec<(SocketAddr, TcpListener)>> {
    let mut found = Vec::new();
    loop {
        let (bytes, sockets) = opener.async_io(Interest::READABLE, || receive_some(opener)).await?;
        for socket in sockets {
            let listener = std::net::TcpListener::from(socket);
            listener.set_nonblocking(true)?;
            found.push((listener.local_addr()?, TcpListener::from_std(listener)?));
        }
        if bytes == 0 {
            return Ok(found);
        }
    }
}

fn receive_some(opener: &tokio::net::UnixStream) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SOCKETS_PER_MESSAGE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let received = recvmsg(opener, &mut [io::IoSliceMut::new(&mut byte)], &mut control, RECEIVE)?;
    let sockets = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(sockets) => Some(sockets),
        _ => None,
    });
    Ok((received.bytes, sockets.flatten().collect()))
}

async fn accept(
    listener: TcpListener,
    purpose: ListenerPurpose,
    network: Arc<SandboxNetwork>,
    permits: Arc<Semaphore>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((client, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Connections that wait here are not accepted, so the kernel limits their number.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let (connection, purpose) = (RelayedConnection::new(client, Arc::clone(&network)), purpose.clone());
        connections.spawn(async move {
            match purpose {
                ListenerPurpose::Proxy => connection.proxy().await,
                ListenerPurpose::Server(target) => connection.direct(target).await,
            }
            drop(permit);
        });
    }
}

#[cfg(test)]
mod tests;
