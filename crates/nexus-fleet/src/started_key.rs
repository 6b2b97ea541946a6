//! The started key, which decides the one worker that may start a turn.
//!
//! An acknowledgement does not prevent a second start: a worker that was paused beyond its time acknowledges a
//! message that another worker has, and both acknowledgements succeed. So the right to start is a key that can
//! be created once. Its creator may start the turn; every other worker, also after an unclear answer, may not.
//! The caller creates the key to take back a turn that no worker has started.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_nats::jetstream::message::PublishMessage;
use nexus_nats::NatsStoreError;
use tokio::time::Instant;

use crate::{
    error::FleetError,
    link::Link,
    protocol::{STARTED_STREAM, StartedBy, started_subject},
};

/// Longest wait for a clear answer. It is shorter than the time after which the message goes to another worker.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause after an unclear answer.
const PAUSE: Duration = Duration::from_millis(250);

/// Result of an attempt to create a started key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeyClaim {
    /// This attempt created the key.
    Won,
    /// Another attempt created the key.
    Lost(StartedBy),
    /// The result is unknown. The key may still be created later.
    Unclear,
}

/// Tries to create the started key of a turn.
///
/// # Errors
///
/// [`NatsError::Forbidden`], [`NatsError::NotSetUp`]
pub(crate) async fn claim(
    link: &Link,
    caller: &str,
    turn: &str,
    worker: Option<&str>,
    attempt: &str,
) -> Result<KeyClaim, FleetError> {
    let subject = started_subject(caller, turn);
    let ours =
        StartedBy { worker: worker.map(str::to_owned), attempt: attempt.to_owned(), at: now_milliseconds() };
    let value = serde_json::to_vec(&ours)
        .map_err(|error| FleetError::Unreadable { what: subject.clone(), reason: error.to_string() })?;
    let until = Instant::now() + PATIENCE;
    loop {
        let message = PublishMessage::build().payload(value.clone().into()).expected_last_subject_sequence(0);
        match link.nats.store(&subject, message).await {
            Ok(_) => return Ok(KeyClaim::Won),
            // The key exists: from an earlier try of this claim whose answer was lost, or from another claim.
            Err(NatsStoreError::Superseded | NatsStoreError::Full) => {
                match read(link, caller, turn).await {
                    Ok(Some(holder)) if holder.attempt == attempt => return Ok(KeyClaim::Won),
                    Ok(Some(holder)) => return Ok(KeyClaim::Lost(holder)),
                    // The server that answered lags behind, so ask again.
                    Ok(None) => {}
                    Err(FleetError::Nats(error)) if error.is_unclear() => {}
                    Err(error) => return Err(error),
                }
            }
            Err(NatsStoreError::Unclear(_) | NatsStoreError::NoStream) => {}
            Err(error @ NatsStoreError::Forbidden(_)) => return Err(error.into()),
        }
        if Instant::now() >= until {
            return Ok(KeyClaim::Unclear);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the worker that has started a turn. A start within the last moment may be missing.
///
/// # Errors
///
/// [`FleetError`]
pub(crate) async fn read(link: &Link, caller: &str, turn: &str) -> Result<Option<StartedBy>, FleetError> {
    let subject = started_subject(caller, turn);
    let found = link.last(STARTED_STREAM, &subject).await?;
    let read = found.map(|value| serde_json::from_slice(&value)).transpose();
    read.map_err(|error| FleetError::Unreadable { what: subject, reason: error.to_string() })
}

/// Returns the current time, in milliseconds since 1970.
pub(crate) fn now_milliseconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
