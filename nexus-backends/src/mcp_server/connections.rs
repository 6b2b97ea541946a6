//! The connections to a server: who may hold one for how long.
//!
//! A connection is a stranger's until a request on it bore the token. A stranger has one request and a time for it,
//! and there are so many strangers at once; where there are more, the oldest goes. So whoever opens connections and
//! says nothing holds up nobody who has something to say.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, getrlimit};
use tokio::{net::TcpStream, time::Instant};

use super::handler::RequestHandler;
use super::permit::ConnectionPermit;

/// How many strangers may be connected at once, where the process may hold so many descriptors. Source: our own bound, of
/// which few are a turn's programs: the more strangers there is room for, the sooner newcomers are taken in a flood.
const MAX_UNAUTHENTICATED: usize = 1024;
/// How many strangers may be connected at once at the least.
const MIN_UNAUTHENTICATED: usize = 64;
/// One of so many descriptors of the process strangers may hold: it needs them for other things. Source: our own choice.
const DESCRIPTORS_PER_UNAUTHENTICATED: u64 = 8;
/// How long a stranger is left alone even if others wait. Source: our own choice, above what a program on a busy
/// machine takes from connecting to writing.
const UNAUTHENTICATED_GRACE: Duration = Duration::from_millis(100);
/// How long a stranger is left alone in a flood. Source: our own choice: most programs write before they are taken.
const FLOOD_GRACE: Duration = Duration::from_millis(20);
/// How long it is a flood after a stranger had to go. Source: our own choice.
const FLOOD: Duration = Duration::from_secs(1);
/// Largest head of a request, in bytes. Source: our own bound; a client's has a few hundred.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// The connections to a server.
pub(super) struct Connections {
    open: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Those that were strangers when last looked at, the oldest first.
    unauthenticated: VecDeque<Weak<ConnectionPermit>>,
    max_unauthenticated: usize,
    /// When a stranger last had to go for others.
    last_eviction: Option<Instant>,
    /// Until when no other is taken.
    rests_until: Option<Instant>,
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            open: FuturesUnordered::new(),
            unauthenticated: VecDeque::new(),
            max_unauthenticated: max_unauthenticated(getrlimit(Resource::Nofile).current),
            last_eviction: None,
            rests_until: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Goes on with those that there are, until one has ended.
    pub(super) async fn step(&mut self) {
        self.open.next().await;
    }

    /// Takes no other for a while.
    pub(super) fn rest_for(&mut self, pause: Duration) {
        self.rests_until = Some(Instant::now() + pause);
    }

    /// Makes room for one more, and says how long to wait if there is none yet.
    pub(super) fn make_room(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if let Some(left) = self.rests_until.map(|until| until.saturating_duration_since(now))
            && !left.is_zero()
        {
            return Some(left);
        }
        self.rests_until = None;
        if self.unauthenticated.len() < self.max_unauthenticated {
            return None;
        }
        self.unauthenticated
            .retain(|permit| permit.upgrade().is_some_and(|permit| !permit.is_authenticated()));
        if self.unauthenticated.len() < self.max_unauthenticated {
            return None;
        }
        let oldest = self.unauthenticated.front().and_then(Weak::upgrade)?;
        let is_flood = self.last_eviction.is_some_and(|last| now.saturating_duration_since(last) < FLOOD);
        let grace = if is_flood { FLOOD_GRACE } else { UNAUTHENTICATED_GRACE };
        let left = (oldest.since + grace).saturating_duration_since(now);
        if !left.is_zero() {
            return Some(left);
        }
        self.last_eviction = Some(now);
        oldest.end.notify_one();
        self.unauthenticated.pop_front();
        None
    }

    /// Serves one more.
    pub(super) fn take(&mut self, stream: TcpStream, handler: &Arc<RequestHandler>) {
        let permit = Arc::new(ConnectionPermit::new());
        self.unauthenticated.push_back(Arc::downgrade(&permit));
        let handler = Arc::clone(handler);
        self.open.push(Box::pin(async move {
            let service = service_fn(|request| handler.respond(request, &permit));
            let conversation = http1::Builder::new()
                // Known clients keep connections for as long as they like; strangers are seen to below.
                .header_read_timeout(None)
                .max_buf_size(MAX_HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                biased;
                // What a client does wrong on the way is its own business.
                _ = conversation => {}
                () = permit.timed_out() => {}
            }
        }));
    }
}

/// How many strangers may be connected at once, where the process may hold so many descriptors.
fn max_unauthenticated(descriptors: Option<u64>) -> usize {
    let share = descriptors.unwrap_or(u64::MAX) / DESCRIPTORS_PER_UNAUTHENTICATED;
    usize::try_from(share).unwrap_or(usize::MAX).clamp(MIN_UNAUTHENTICATED, MAX_UNAUTHENTICATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_the_process_its_descriptors() {
        let most = [Some(0), Some(256), Some(1024), Some(1 << 20), None].map(max_unauthenticated);
        assert_eq!(
            most,
            [MIN_UNAUTHENTICATED, MIN_UNAUTHENTICATED, 128, MAX_UNAUTHENTICATED, MAX_UNAUTHENTICATED]
        );
    }
}
