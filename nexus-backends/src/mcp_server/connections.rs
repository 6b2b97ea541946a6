//! The connections to a door: who may hold one for how long.
//!
//! A connection is a stranger's until a request on it bore the token. A stranger has one request and a time for it,
//! and there are so many strangers at once; where there are more, the oldest goes. So whoever opens connections and
//! says nothing holds up nobody who has something to say.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, getrlimit};
use tokio::{
    net::TcpStream,
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use super::handler::Desk;

/// How many strangers may be connected at once, where the process may hold so many descriptors. Source: our own bound, of
/// which few are a turn's programs: the more strangers there is room for, the sooner newcomers are taken in a flood.
const MAX_STRANGERS: usize = 1024;
/// How many strangers may be connected at once at the least.
const MIN_STRANGERS: usize = 64;
/// One of so many descriptors of the process strangers may hold: it needs them for other things. Source: our own choice.
const DESCRIPTORS_PER_STRANGER: u64 = 8;
/// How long a stranger may take for its request. Source: our own choice: a program on this machine needs none.
const STRANGER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a stranger is left alone even if others wait. Source: our own choice, above what a program on a busy
/// machine takes from connecting to writing.
const STRANGER_GRACE: Duration = Duration::from_millis(100);
/// How long a stranger is left alone in a flood. Source: our own choice: most programs write before they are taken.
const FLOOD_GRACE: Duration = Duration::from_millis(20);
/// How long it is a flood after a stranger had to go. Source: our own choice.
const FLOOD: Duration = Duration::from_secs(1);
/// Largest head of a request, in bytes. Source: our own bound; a client's has a few hundred.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Most connections that have shown the token. Source: our own bound; one call under way takes one.
pub(super) const MAX_KNOWN: usize = 128;

/// The connections to a door.
pub(super) struct Connections {
    open: FuturesUnordered<BoxFuture<'static, ()>>,
    /// Those that were strangers when last looked at, the oldest first.
    strangers: VecDeque<Weak<Seat>>,
    most_strangers: usize,
    /// When a stranger last had to go for others.
    sent_off: Option<Instant>,
    /// Until when no other is taken.
    rests_until: Option<Instant>,
}

/// What is known of one connection.
pub(super) struct Seat {
    since: Instant,
    known: OnceLock<OwnedSemaphorePermit>,
    end: Notify,
}

impl Seat {
    /// Whether a request on it has borne the token.
    fn is_known(&self) -> bool {
        self.known.get().is_some()
    }

    /// A request on it bears the token: from now on it has one of `seats`. `false` if none is left.
    pub(super) fn take(&self, seats: &Arc<Semaphore>) -> bool {
        if self.is_known() {
            return true;
        }
        let Ok(permit) = Arc::clone(seats).try_acquire_owned() else { return false };
        // Requests of one connection come one after the other.
        self.known.set(permit).is_ok()
    }

    /// Waits until a stranger has had its time.
    async fn overstayed(&self) {
        tokio::select! {
            () = tokio::time::sleep_until(self.since + STRANGER_TIMEOUT) => {}
            () = self.end.notified() => {}
        }
        if self.is_known() {
            std::future::pending::<()>().await;
        }
    }
}

impl Connections {
    pub(super) fn new() -> Self {
        Self {
            open: FuturesUnordered::new(),
            strangers: VecDeque::new(),
            most_strangers: most_strangers(getrlimit(Resource::Nofile).current),
            sent_off: None,
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
        if self.strangers.len() < self.most_strangers {
            return None;
        }
        self.strangers.retain(|seat| seat.upgrade().is_some_and(|seat| !seat.is_known()));
        if self.strangers.len() < self.most_strangers {
            return None;
        }
        let oldest = self.strangers.front().and_then(Weak::upgrade)?;
        let is_flood = self.sent_off.is_some_and(|last| now.saturating_duration_since(last) < FLOOD);
        let grace = if is_flood { FLOOD_GRACE } else { STRANGER_GRACE };
        let left = (oldest.since + grace).saturating_duration_since(now);
        if !left.is_zero() {
            return Some(left);
        }
        self.sent_off = Some(now);
        oldest.end.notify_one();
        self.strangers.pop_front();
        None
    }

    /// Serves one more.
    pub(super) fn take(&mut self, stream: TcpStream, desk: &Arc<Desk>) {
        let seat = Arc::new(Seat { since: Instant::now(), known: OnceLock::new(), end: Notify::new() });
        self.strangers.push_back(Arc::downgrade(&seat));
        let desk = Arc::clone(desk);
        self.open.push(Box::pin(async move {
            let service = service_fn(|request| desk.respond(request, &seat));
            let conversation = http1::Builder::new()
                // Known clients keep connections for as long as they like; strangers are seen to below.
                .header_read_timeout(None)
                .max_buf_size(MAX_HEAD_BYTES)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                biased;
                // What a client does wrong on the way is its own business.
                _ = conversation => {}
                () = seat.overstayed() => {}
            }
        }));
    }
}

/// How many strangers may be connected at once, where the process may hold so many descriptors.
fn most_strangers(descriptors: Option<u64>) -> usize {
    let share = descriptors.unwrap_or(u64::MAX) / DESCRIPTORS_PER_STRANGER;
    usize::try_from(share).unwrap_or(usize::MAX).clamp(MIN_STRANGERS, MAX_STRANGERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_the_process_its_descriptors() {
        let most = [Some(0), Some(256), Some(1024), Some(1 << 20), None].map(most_strangers);
        assert_eq!(most, [MIN_STRANGERS, MIN_STRANGERS, 128, MAX_STRANGERS, MAX_STRANGERS]);
    }
}
