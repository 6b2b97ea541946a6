//! Brings the changes of a turn into the caller's checkout.

use std::time::Duration;

use nexus_core::{BackendId, CancelToken, Effects, ErrorKind, TurnError, TurnResult, harness::Failure};
use nexus_nats::NatsError;
use tokio::time::{Instant, sleep};

use super::travelling_files::{Arrival, CallerFiles};
use crate::{
    blocking::off_thread, error::FleetError, link::Link, objects, protocol::StoredObject, spoiled::spoiled,
    wait::until,
};

/// Longest time for fetching a change.
const FETCH_TIME: Duration = Duration::from_secs(600);
/// Additional time after a cancellation or the deadline, so that finished work is not lost.
pub(super) const GRACE: Duration = Duration::from_secs(60);

/// Source of a change, and the conditions that end the wait for it.
pub(super) struct Way<'w> {
    pub(super) link: &'w Link,
    /// Prefix of the names of the turn's objects.
    pub(super) owner: &'w str,
    pub(super) backend: &'w BackendId,
    pub(super) cancel: &'w CancelToken,
    pub(super) deadline: Option<Instant>,
}

/// Applies the changes of a turn, and returns the end of the turn. If the change could not be applied, that is an error that
/// names the ref of the stored change. If the future is dropped before it applies the change, nothing is touched. A drop
/// during the change waits until it is complete.
pub(super) async fn receive(
    files: CallerFiles,
    change: Option<StoredObject>,
    outcome: Result<TurnResult, TurnError>,
    way: Way<'_>,
) -> Result<TurnResult, TurnError> {
    let backend = way.backend;
    let arrival = match change {
        Some(change) => arrive(files, &change, &way).await,
        None => {
            off_thread(CancelToken::new(), move |_| {
                // Dropping the files deletes folders and a ref, which blocks.
                drop(files);
                Ok(Arrival::Unchanged)
            })
            .await
        }
    };
    match arrival {
        Ok(Arrival::Unchanged) => outcome,
        Ok(Arrival::Landed { branch, commit }) => {
            tracing::info!(%commit, branch, "the changes of a turn were committed");
            wrote(outcome)
        }
        Ok(Arrival::Kept { reference, reason }) => {
            let message = format!(
                "the changes of the turn were not applied: {reason}; they are stored as {reference}: `git \
                 cherry-pick {reference}` applies them, `git update-ref -d {reference}` removes them"
            );
            Err(spoiled(outcome, backend, Failure::new(ErrorKind::InvalidRequest, message)))
        }
        Err(failure) => Err(spoiled(outcome, backend, failure)),
    }
}

async fn arrive(files: CallerFiles, change: &StoredObject, way: &Way<'_>) -> Result<Arrival, Failure> {
    if !files.may_write() {
        let reason = "the worker sent changes of a read-only turn; they were not applied";
        return Err(Failure::new(ErrorKind::Protocol, reason));
    }
    let most = way.link.settings.max_workspace_bytes();
    let file = files.change_file();
    let fetched = tokio::select! {
        // `biased`: a change that has arrived completely counts, even if the wait ends at the same time.
        biased;
        fetched = objects::fetch_file(way.link, way.owner, change, &file, most) => fetched,
        () = given_up(way) => Err(NatsError::unclear("it did not arrive in time").into()),
    };
    fetched.map_err(|error| {
        let kind = match error {
            FleetError::Nats(ref nats) if nats.is_unreachable() => ErrorKind::Transport,
            _ => ErrorKind::Protocol,
        };
        Failure::new(kind, format!("the changes of the turn were not applied, and are lost: {error}"))
    })?;
    // Do not cancel this: a change of the repository that has begun must be completed.
    off_thread(CancelToken::new(), move |_| files.apply()).await
}

/// Waits until the change is no longer wanted.
async fn given_up(way: &Way<'_>) {
    tokio::select! {
        () = way.cancel.cancelled() => {}
        () = until(way.deadline) => {}
        () = sleep(FETCH_TIME) => return,
    }
    sleep(GRACE).await;
}

fn wrote(outcome: Result<TurnResult, TurnError>) -> Result<TurnResult, TurnError> {
    match outcome {
        Ok(mut result) => {
            result.effects = result.effects.and(Effects::Wrote);
            Ok(result)
        }
        Err(mut error) => {
            let effects = error.partial().effects.and(Effects::Wrote);
            error.partial_mut().effects = effects;
            Err(error)
        }
    }
}
