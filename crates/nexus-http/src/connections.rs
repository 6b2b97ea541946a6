//! The connections of a server, with limits on their number and duration.
//!
//! A connection is a stranger until the handler admits it. Strangers have a time limit, and their number is limited: a further
//! stranger evicts the oldest one. Clients that open connections and send nothing therefore block no client that sends a request.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, getrlimit};
use tokio::{net::TcpStream, sync::Semaphore, time::Instant};

use crate::{connection::HttpConnection, handler::RequestHandler};

/// Maximum number of strangers at once, if the process may open enough descriptors. Source: our own bound, far above the number of a server's
/// clients. More strangers mean that a flood delays newcomers less.
const MAX_STRANGERS: usize = 1024;
/// Smallest limit on strangers, even with few descriptors.
const MIN_STRANGERS: usize = 64;
/// One stranger is allowed per this number of descriptors. Source: our own choice: the process needs the others itself.
const DESCRIPTORS_PER_STRANGER: u64 = 8;
/// Shortest life of a stranger before eviction. Source: our own choice. It is longer than a program on a busy machine takes from
/// connecting to writing.
const GRACE: Duration = Duration::from_millis(100);
/// Shortest life of a stranger before eviction in a flood. Source: our own choice: most programs write before they are accepted.
const FLOOD_GRACE: Duration = Duration::from_millis(20);
/// Time after the last eviction that still counts as a flood. Source: our own choice.
const FLOOD: Duration = Duration::from_secs(1);

/// Bounds of a [`BoundedServer`](crate::BoundedServer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerLimits {
    /// Largest head of a request, in bytes. 32 KiB by default; a typical head has a few hundred bytes.
    pub max_head_bytes: usize,
    /// Longest time from the first byte of a head to its last. Unlimited by default: admitted clients keep a connection as long as
    /// they like, and `stranger_timeout` limits all others.
    pub head_timeout: Option<Duration>,
    /// True if a connection may carry several requests. True by default.
    pub keep_alive: bool,
    /// Maximum number of connections that are not admitted. By default an eighth of the process's descriptors, between 64 and 1,024.
    pub max_strangers: usize,
    /// Longest life of a connection that is not admitted. Ten seconds by default, far more than a program on this machine needs.
    pub stranger_timeout: Duration,
    /// Maximum number of admitted connections. 128 by default; each call in progress uses one.
    pub max_admitted: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            max_head_bytes: 32 << 10,
            head_timeout: None,
            keep_alive: true,
            max_strangers: max_strangers(getrlimit(Resource::Nofile).current),
            stranger_timeout: Duration::from_secs(10),
            max_admitted: 128,
        }
    }
}

impl ServerLimits {
    /// Returns the limits of a server that never admits a connection. Each connection carries one request.
    pub fn one_request(max_connections: usize, head_timeout: Duration, connection_timeout: Duration) -> Self {
        Self {
            head_timeout: Some(head_timeout),
            keep_alive: false,
            max_strangers: max_connections,
            stranger_timeout: connection_timeout,
            max_admitted: 0,
            ..Self::default()
        }
    }

    /// Sets the largest head of a request. The server uses at least 8 KiB.
    #[must_use]
    pub fn with_max_head_bytes(mut self, bytes: usize) -> Self {
        self.max_head_bytes = bytes.max(8 << 10);
        self
    }
}

/// The connections of a server.
pub(crate) struct Connections {
    limits: ServerLimits,
    open: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Connections that were strangers at the last check, the oldest first.
    strangers: VecDeque<Weak<HttpConnection>>,
    permits: Arc<Semaphore>,
    last_eviction: Option<Instant>,
    rests_until: Option<Instant>,
}

impl Connections {
    pub(crate) fn new(limits: ServerLimits) -> Self {
        Self {
            limits,
            open: FuturesUnordered::new(),
            strangers: VecDeque::new(),
            permits: Arc::new(Semaphore::new(limits.max_admitted)),
            last_eviction: None,
            rests_until: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Serves the open connections until one has ended.
    pub(crate) async fn step(&mut self) {
        self.open.next().await;
    }

    /// Pauses accepting connections.
    pub(crate) fn rest_for(&mut self, pause: Duration) {
        self.rests_until = Some(Instant::now() + pause);
    }

    /// Evicts the oldest stranger if no further one fits. Returns the time to wait while accepting is paused or the oldest stranger
    /// may not be evicted yet.
    pub(crate) fn make_room(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(left) = self.rests_until.map(|until| until.saturating_duration_since(now))
            && !left.is_zero()
        {
            return Some(left);
        }
        self.rests_until = None;
        // A limit of zero would never accept a connection.
        let most = self.limits.max_strangers.max(1);
        if self.strangers.len() < most {
            return None;
        }
        // Only with a full list, so that the cost is spread over many connections.
        self.strangers.retain(|stranger| stranger.upgrade().is_some_and(|stranger| !stranger.is_admitted()));
        if self.strangers.len() < most {
            return None;
        }
        let oldest = self.strangers.front().and_then(Weak::upgrade)?;
        let is_flood = self.last_eviction.is_some_and(|last| now.saturating_duration_since(last) < FLOOD);
        let grace = if is_flood { FLOOD_GRACE } else { GRACE };
        let left = (oldest.since + grace).saturating_duration_since(now);
        if !left.is_zero() {
            return Some(left);
        }
        self.last_eviction = Some(now);
        oldest.evict();
        self.strangers.pop_front();
        None
    }

    /// Serves one more connection.
    pub(crate) fn take<H: RequestHandler>(&mut self, stream: TcpStream, handler: &Arc<H>) {
        let connection = Arc::new(HttpConnection::new(Arc::clone(&self.permits)));
        // Weak, so that the list shows which connections have ended.
        self.strangers.push_back(Arc::downgrade(&connection));
        let (handler, limits) = (Arc::clone(handler), self.limits);
        self.open.push(Box::pin(async move {
            let _end = connection.end_on_drop();
            let service =
                service_fn(async |request| Ok::<_, Infallible>(handler.respond(request, &connection).await));
            let conversation = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head_timeout)
                .keep_alive(limits.keep_alive)
                .max_buf_size(limits.max_head_bytes)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                biased;
                // Ignore an error: the client left or sent invalid HTTP.
                _ = conversation => {}
                () = connection.has_to_go(connection.since + limits.stranger_timeout) => {}
            }
        }));
    }
}

/// Returns the limit on strangers in a process that may open `descriptors` descriptors.
fn max_strangers(descriptors: Option<u64>) -> usize {
    let share = descriptors.unwrap_or(u64::MAX) / DESCRIPTORS_PER_STRANGER;
    usize::try_from(share).unwrap_or(usize::MAX).clamp(MIN_STRANGERS, MAX_STRANGERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_the_process_its_descriptors() {
        let most = [Some(0), Some(256), Some(1024), Some(1 << 20), None].map(max_strangers);
        assert_eq!(most, [MIN_STRANGERS, MIN_STRANGERS, 128, MAX_STRANGERS, MAX_STRANGERS]);
    }
}
