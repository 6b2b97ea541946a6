//! Detects that the worker of a turn is dead: it was silent for longer than three heartbeats.

use std::time::Duration;

use nexus_core::{ErrorKind, harness::Failure};
use tokio::time::Instant;

/// Longest time between two messages to a worker.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Silence after which a worker counts as dead. Source: three heartbeats; an election takes 5 to 6 s.
pub(crate) const SILENCE: Duration = Duration::from_secs(30);
/// Pause between two lookups of the worker that has started a waiting turn.
const LOOK: Duration = Duration::from_secs(5);
/// Longest time without a connection until the caller ends the turn. The worker ends it before that.
const OFFLINE: Duration = Duration::from_secs(60);
/// Number of consecutive unclear answers of the servers after which the turn ends.
const MAX_UNCLEAR: u32 = 4;

/// Contact of a caller with the worker of its turn.
pub(super) struct WorkerContact {
    /// Time at which the turn was stored, until the first message of a worker.
    queued_at: Option<Instant>,
    last_heard: Instant,
    last_sent: Instant,
    looked_at: Instant,
    offline_since: Option<Instant>,
    /// Number of consecutive unclear answers of the servers.
    unclear: u32,
}

impl WorkerContact {
    /// Creates the contact when the turn is stored in its queue.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            queued_at: Some(now),
            last_heard: now,
            last_sent: now,
            looked_at: now,
            offline_since: None,
            unclear: 0,
        }
    }

    /// Records a message from the worker, or a cause of missing messages that is not the worker's fault.
    pub(super) fn heard(&mut self) {
        self.last_heard = Instant::now();
    }

    /// Records a message to the worker.
    pub(super) fn sent(&mut self) {
        self.last_sent = Instant::now();
    }

    /// Returns the time until the first message of a worker. Returns it once.
    pub(super) fn waited(&mut self) -> Option<Duration> {
        self.queued_at.take().map(|at| at.elapsed())
    }

    /// Returns true if a connection has been missing for so long that the turn is lost.
    pub(super) fn is_offline(&mut self, is_connected: bool) -> bool {
        if is_connected {
            self.offline_since = None;
            return false;
        }
        // Without a connection, missing messages do not mean that the worker is silent.
        self.heard();
        self.offline_since.get_or_insert_with(Instant::now).elapsed() >= OFFLINE
    }

    /// Returns true if it is time to send the worker a heartbeat.
    pub(super) fn needs_heartbeat(&self) -> bool {
        self.last_sent.elapsed() >= HEARTBEAT
    }

    /// Returns true if the worker counts as dead.
    pub(super) fn is_silent(&self) -> bool {
        self.last_heard.elapsed() >= SILENCE
    }

    /// Returns true if it is time to look up whether a worker has started the turn.
    pub(super) fn should_look(&self) -> bool {
        self.looked_at.elapsed() >= LOOK
    }

    /// Records a lookup.
    pub(super) fn looked(&mut self) {
        self.looked_at = Instant::now();
    }

    /// Records a clear answer of the servers.
    pub(super) fn is_clear(&mut self) {
        self.unclear = 0;
    }

    /// Records an unclear answer of the servers. Returns true after too many of them.
    pub(super) fn is_unclear(&mut self) -> bool {
        self.heard();
        self.unclear += 1;
        self.unclear >= MAX_UNCLEAR
    }
}

/// Returns the failure of a turn whose worker is dead and stored no result.
pub(super) fn failure(worker: &str, pool: &str) -> Failure {
    let reason = format!(
        "the worker {worker} of the pool {pool} sent nothing for {} s, and stored no result",
        SILENCE.as_secs()
    );
    Failure::new(ErrorKind::Crashed, reason)
}
