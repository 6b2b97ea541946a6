//! Measurements of a caller's turns.

use nexus_core::{TurnError, TurnResult};
use nexus_nats::NatsStoreError;
use tokio::time::Instant;

use super::FleetBackend;
use crate::{
    measure::{self, Of},
    protocol::Lane,
};

impl FleetBackend {
    /// Returns the labels of this backend's measurements.
    pub(super) fn labels(&self) -> Of<'_> {
        Of { pool: Some(&self.pool), backend: Some(self.local.id().as_str()), ..Of::default() }
    }

    /// Counts the attempt to put a turn into a queue.
    pub(super) fn sent(&self, lane: &Lane, stored: &Result<u64, NatsStoreError>) {
        let lane = match lane {
            Lane::Any(priority) => priority.as_str(),
            Lane::At(_) => "kept",
        };
        let error = stored.as_ref().err().map(|error| match error {
            NatsStoreError::Full => "full",
            NatsStoreError::Forbidden(_) => "forbidden",
            NatsStoreError::Superseded | NatsStoreError::NoStream | NatsStoreError::Unclear(_) => "unclear",
        });
        let of = Of { pool: Some(&self.pool), lane: Some(lane), error, ..Of::default() };
        measure::SENT.add(1, Of { operation: Some("send"), ..of });
        if error == Some("full") {
            measure::OVERLOADED.add(1, self.labels());
        }
    }
}

/// Measures a turn of a caller. If it is dropped without a reported end, the turn counts as cancelled.
pub(super) struct MeasuredTurn<'b> {
    backend: &'b FleetBackend,
    began: Instant,
    has_ended: bool,
}

impl<'b> MeasuredTurn<'b> {
    pub(super) fn begin(backend: &'b FleetBackend) -> Self {
        Self { backend, began: Instant::now(), has_ended: false }
    }

    pub(super) fn ended(mut self, outcome: &Result<TurnResult, TurnError>) {
        match outcome {
            Ok(_) => self.end(None),
            Err(error) => self.end(Some(&format!("{:?}", error.kind()))),
        }
    }

    fn end(&mut self, error: Option<&str>) {
        if !std::mem::replace(&mut self.has_ended, true) {
            measure::CALLER_TIME.time(self.began.elapsed(), Of { error, ..self.backend.labels() });
        }
    }
}

impl Drop for MeasuredTurn<'_> {
    fn drop(&mut self) {
        self.end(Some("Cancelled"));
    }
}
