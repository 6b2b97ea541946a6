//! Pool of idle connections for later requests.

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    task::Poll,
    time::Duration,
};

use tokio::{
    runtime::{Handle, Id},
    task::JoinHandle,
    time::Instant,
};

use super::connection::{Connection, runtime};
use crate::http::client::POOL_IDLE;

/// Pause between two sweeps of idle connections. Source: our own choice.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Idle connections of one server.
#[derive(Default)]
pub(super) struct Pool(Mutex<IdleConnections>);

/// Idle connections, and the tasks that close them.
#[derive(Default)]
struct IdleConnections {
    /// Idle connections with the time of their return. The most recently used connection is reused first, so that the
    /// others can expire.
    connections: Vec<(Box<Connection>, Instant)>,
    /// Tasks that close expired connections, and connections that the server closed. Each runtime with idle connections has
    /// one task, because any runtime may be idle.
    sweepers: Vec<(Id, JoinHandle<()>)>,
}

impl Pool {
    /// Returns an idle connection of this runtime. The server may have closed it meanwhile.
    pub(super) fn take(&self) -> Option<Box<Connection>> {
        // A connection works only on the runtime that created it.
        let runtime = runtime();
        loop {
            let (connection, since) = {
                let connections = &mut self.kept().connections;
                // Prefer the newest connection, because the server is least likely to have closed it.
                let last = connections.iter().rposition(|(connection, _)| connection.is_of(runtime))?;
                connections.remove(last)
            };
            if since.elapsed() < POOL_IDLE {
                return Some(connection);
            }
        }
    }

    /// Stores a free connection for reuse.
    pub(super) fn put(self: &Arc<Self>, connection: Box<Connection>) {
        // Without a runtime no task would ever close the connection, so drop it.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut kept = self.kept();
        kept.connections.push((connection, Instant::now()));
        // A sweeper is finished when the runtime that it ran on is gone.
        kept.sweepers.retain(|(_, sweeper)| !sweeper.is_finished());
        let id = runtime.id();
        if kept.sweepers.iter().all(|(known, _)| *known != id) {
            kept.sweepers.push((id, runtime.spawn(sweep(Arc::downgrade(self), id))));
        }
    }

    fn kept(&self) -> MutexGuard<'_, IdleConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for IdleConnections {
    fn drop(&mut self) {
        // Otherwise the tasks would sleep on after their client is dropped.
        self.sweepers.iter().for_each(|(_, sweeper)| sweeper.abort());
    }
}

async fn sweep(pool: Weak<Pool>, runtime: Id) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let swept = poll_fn(|context| {
            let mut kept = pool.kept();
            kept.connections
                .retain_mut(|(connection, since)| since.elapsed() < POOL_IDLE && connection.is_free(context));
            if kept.connections.is_empty() {
                kept.sweepers.retain(|(known, _)| *known != runtime);
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
        assert!(pool.kept().sweepers.is_empty());
        assert_eq!(open_far.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_runtime_kept_is_not_used_and_not_kept_for_ever() {
        let pool = Arc::new(Pool::default());
        let kept = Arc::clone(&pool);
        let other = std::thread::spawn(move || {
            let other = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let far = other.block_on(async {
                let (connection, far) = connection().await;
                kept.put(connection);
                far
            });
            (other, far)
        });
        let (other, _other_far) = other.join().unwrap();
        assert!(pool.take().is_none());
        let (ours, _far) = connection().await;
        pool.put(ours);
        assert!(pool.take().is_some());
        // The other runtime rests, and so does its sweeper.
        tokio::time::sleep(POOL_IDLE * 2).await;
        assert!(pool.kept().connections.is_empty());
        other.shutdown_background();
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
