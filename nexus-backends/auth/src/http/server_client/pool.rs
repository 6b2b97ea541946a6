//! Connections that are kept for the next request.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use tokio::{runtime::Handle, task::JoinHandle, time::Instant};

use super::connection::Connection;
use crate::http::client::POOL_IDLE;

/// How often kept connections are looked after. Source: our own choice.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The kept connections of one server.
#[derive(Default)]
pub(super) struct Pool(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The one that was used last is used first: the others may grow old.
    connections: Vec<(Box<Connection>, Instant)>,
    /// Closes what the server closed or what has grown old, as long as there is anything.
    sweeper: Option<JoinHandle<()>>,
}

impl Pool {
    /// A connection that was used before, and may have been closed since.
    pub(super) fn take(&self) -> Option<Box<Connection>> {
        loop {
            let (connection, since) = self.kept().connections.pop()?;
            if since.elapsed() < POOL_IDLE {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection that is free.
    pub(super) fn put(self: &Arc<Self>, connection: Box<Connection>) {
        // Without a runtime nobody would close it.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut kept = self.kept();
        kept.connections.push((connection, Instant::now()));
        // A sweeper is finished, too, when the runtime that it ran on is gone.
        if kept.sweeper.as_ref().is_none_or(JoinHandle::is_finished) {
            kept.sweeper = Some(runtime.spawn(sweep(Arc::downgrade(self))));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // It would sleep on behind its client.
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let swept = poll_fn(|context| {
            let mut kept = pool.kept();
            kept.connections
                .retain_mut(|(connection, since)| since.elapsed() < POOL_IDLE && connection.is_free(context));
            if kept.connections.is_empty() {
                kept.sweeper = None;
            }
            Poll::Ready(kept.connections.is_empty())
        });
        if swept.await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper_util::rt::TokioIo;
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;
    use crate::http::connector::Io;

    async fn connection() -> (Box<Connection>, DuplexStream) {
        let (near, far) = duplex(64);
        let stream = TokioIo::new(Box::new(near) as Box<dyn Io>);
        (Connection::over(stream).await.unwrap(), far)
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_server_closed_or_what_has_grown_old_is_closed_without_a_request() {
        let pool = Arc::new(Pool::default());
        let (closed, far) = connection().await;
        let (open, mut open_far) = connection().await;
        pool.put(closed);
        pool.put(open);
        drop(far);
        tokio::time::sleep(SWEEP_INTERVAL * 2).await;
        assert_eq!(pool.kept().connections.len(), 1);
        tokio::time::sleep(POOL_IDLE).await;
        assert!(pool.kept().connections.is_empty());
        assert!(pool.kept().sweeper.is_none());
        assert_eq!(open_far.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn kept_connections_end_with_their_client() {
        let pool = Arc::new(Pool::default());
        let (connection, mut far) = connection().await;
        pool.put(connection);
        drop(pool);
        assert_eq!(far.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_connection_is_not_used() {
        let pool = Arc::new(Pool::default());
        let (connection, _far) = connection().await;
        let long_ago = Instant::now();
        tokio::time::advance(POOL_IDLE).await;
        pool.kept().connections.push((connection, long_ago));
        assert!(pool.take().is_none());
    }
}
