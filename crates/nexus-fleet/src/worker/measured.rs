//! Measurements of a worker's turns.

use std::{sync::Arc, time::Duration};

use nexus_core::{TurnError, TurnResult};
use tokio::time::Instant;

use crate::{
    measure::{self, Of},
    protocol::{Lane, QueuedTurn, queued_at},
    setup::STORED_FOR,
    started_key::now_milliseconds,
};

/// Labels of a worker's turn. The caller chooses the backend's name, so a backend that is not offered here
/// counts as `other`.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) pool: Arc<str>,
    pub(super) backend: Arc<str>,
}

impl Figures {
    pub(super) fn of(pool: &Arc<str>, queued: &QueuedTurn, is_offered: bool) -> Self {
        let backend = if is_offered { queued.backend.as_str() } else { "other" };
        Self { pool: Arc::clone(pool), backend: backend.into() }
    }

    /// Counts a turn that was taken and not run.
    pub(super) fn declined(&self, reason: &'static str) {
        measure::DECLINED.add(1, Of { reason: Some(reason), ..self.labels() });
    }

    /// Counts repeated frames.
    pub(super) fn repeated(&self, frames: usize) {
        measure::REPEATED.add(frames, Of { pool: Some(&self.pool), ..Of::default() });
    }

    fn labels(&self) -> Of<'_> {
        Of { pool: Some(&self.pool), backend: Some(&self.backend), ..Of::default() }
    }
}

/// Counts a message that was taken out of a queue, and its waiting time if it is a turn.
pub(super) fn taken(pool: &str, message: &async_nats::jetstream::Message, sent_at: Option<u64>) {
    let lane = match queued_at(pool, &message.subject) {
        Some(Lane::Any(priority)) => priority.as_str(),
        Some(Lane::At(_)) => "kept",
        None => "other",
    };
    let of = Of { pool: Some(pool), lane: Some(lane), ..Of::default() };
    measure::CONSUMED.add(1, Of { operation: Some("receive"), ..of });
    if message.info().is_ok_and(|info| info.delivered > 1) {
        measure::REDELIVERED.add(1, of);
    }
    if let Some(sent_at) = sent_at {
        // The caller's clock may be wrong, so the time is bounded below.
        let waited = Duration::from_millis(now_milliseconds().saturating_sub(sent_at));
        measure::QUEUE_TIME.time(waited.min(STORED_FOR), of);
    }
}

/// Counts a message that was taken and not run.
pub(super) fn declined(pool: &str, reason: &'static str) {
    measure::DECLINED.add(1, Of { pool: Some(pool), reason: Some(reason), ..Of::default() });
}

/// Reports the worker's number of slots, until it is dropped.
pub(super) struct MeasuredSlots(Arc<str>, i64);

impl MeasuredSlots {
    pub(super) fn new(pool: &Arc<str>, slots: usize) -> Self {
        let slots = i64::try_from(slots).unwrap_or(i64::MAX);
        measure::SLOTS.change(slots, Of { pool: Some(pool), ..Of::default() });
        Self(Arc::clone(pool), slots)
    }
}

impl Drop for MeasuredSlots {
    fn drop(&mut self) {
        measure::SLOTS.change(-self.1, Of { pool: Some(&self.0), ..Of::default() });
    }
}

/// Measures a running turn. If it is dropped without a reported end, the turn counts as abandoned.
pub(super) struct MeasuredTurn {
    figures: Figures,
    began: Instant,
    has_ended: bool,
}

impl MeasuredTurn {
    pub(super) fn begin(figures: Figures) -> Self {
        measure::BEGUN.add(1, figures.labels());
        measure::RUNNING.change(1, figures.labels());
        Self { figures, began: Instant::now(), has_ended: false }
    }

    pub(super) fn ended(&mut self, outcome: &Result<TurnResult, TurnError>) {
        match outcome {
            Ok(_) => self.end(None),
            Err(error) => self.end(Some(&format!("{:?}", error.kind()))),
        }
    }

    fn end(&mut self, error: Option<&str>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            measure::TURN_TIME.time(self.began.elapsed(), Of { error, ..self.figures.labels() });
            measure::RUNNING.change(-1, self.figures.labels());
        }
    }
}

impl Drop for MeasuredTurn {
    fn drop(&mut self) {
        self.end(Some("Abandoned"));
    }
}
