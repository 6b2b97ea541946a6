//! Lookups about a turn, in addition to its worker's messages.

use std::time::Duration;

use nexus_core::Effects;
use nexus_nats::NatsError;

use super::stop::{TurnAddress, remove_from_queue};
use crate::{
    error::FleetError,
    objects,
    protocol::{
        Payload, RESULTS_STREAM, StartedBy, StoredEffects, StoredResult, WireOutcome, effects_subject,
        result_subject,
    },
    started_key::{self, KeyClaim},
};

/// Maximum number of attempts to read a missing result. A replica that lags behind may not have it yet.
const LOOKS: u32 = 3;
/// Pause between two lookups.
const PAUSE: Duration = Duration::from_secs(1);

/// Result of a lookup about a turn.
pub(super) enum FoundEnd {
    /// No worker has started the turn.
    Nothing,
    /// This worker has started the turn.
    StartedBy(StartedBy),
    /// The caller took the turn back before a worker started it. No worker can start it any more.
    TakenBack,
    /// The worker reported this end.
    End(Box<WireOutcome>),
    /// The worker had stored this end.
    Stored(Box<WireOutcome>),
    /// The worker stored no result, and these effects, if any.
    Silent { effects: Option<Effects> },
    /// The stored result cannot be read.
    Unreadable(String),
    /// The servers do not answer at the moment.
    Unclear,
}

/// Looks for a worker that has started the turn.
pub(super) async fn look_for_worker(address: TurnAddress) -> FoundEnd {
    let TurnAddress { link, turn, .. } = address;
    match started_key::read(&link, link.settings.name(), &turn).await {
        Ok(Some(holder)) => FoundEnd::StartedBy(holder),
        Ok(None) => FoundEnd::Nothing,
        Err(error @ FleetError::Nats(NatsError::Forbidden { .. })) => FoundEnd::Unreadable(error.to_string()),
        Err(_) => FoundEnd::Unclear,
    }
}

/// Takes the turn back, unless a worker has started it.
pub(super) async fn take_back(address: TurnAddress) -> FoundEnd {
    let TurnAddress { link, turn, pool, queue_number, .. } = address;
    let attempt = uuid::Uuid::new_v4().simple().to_string();
    match started_key::claim(&link, link.settings.name(), &turn, None, &attempt).await {
        Ok(KeyClaim::Won) => {
            remove_from_queue(&link, &pool, queue_number).await;
            FoundEnd::TakenBack
        }
        Ok(KeyClaim::Lost(holder)) => FoundEnd::StartedBy(holder),
        Ok(KeyClaim::Unclear) | Err(_) => FoundEnd::Unclear,
    }
}

/// Reads the end that a worker reported.
pub(super) async fn read(address: TurnAddress, payload: Payload) -> FoundEnd {
    let (link, owner) = (&address.link, address.owner());
    match objects::unpack::<WireOutcome>(link, &owner, &payload).await {
        Ok(outcome) => FoundEnd::End(Box::new(outcome)),
        Err(error) => FoundEnd::Unreadable(error.to_string()),
    }
}

/// Looks up the stored result and effects of a silent worker.
pub(super) async fn after_silence(address: TurnAddress) -> FoundEnd {
    let owner = address.owner();
    let TurnAddress { link, turn, attempt, .. } = address;
    let name = link.settings.name().to_owned();
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let stored = match link.last(RESULTS_STREAM, &result_subject(&name, &turn)).await {
            Ok(stored) => stored,
            Err(error) if error.is_unclear() => return FoundEnd::Unclear,
            Err(error) => return FoundEnd::Unreadable(error.to_string()),
        };
        let Some(stored) = stored else { continue };
        let stored: StoredResult = match serde_json::from_slice(&stored) {
            Ok(stored) => stored,
            Err(error) => return FoundEnd::Unreadable(error.to_string()),
        };
        if attempt.as_ref().is_some_and(|attempt| *attempt != stored.attempt) {
            continue;
        }
        return match objects::unpack(&link, &owner, &stored.outcome).await {
            Ok(outcome) => FoundEnd::Stored(Box::new(outcome)),
            Err(error) => FoundEnd::Unreadable(error.to_string()),
        };
    }
    match link.last(RESULTS_STREAM, &effects_subject(&name, &turn)).await {
        Ok(stored) => {
            let stored = stored.and_then(|stored| serde_json::from_slice::<StoredEffects>(&stored).ok());
            // Other programs may write to the subject; only this attempt's messages count.
            let ours =
                stored.filter(|stored| attempt.as_ref().is_none_or(|attempt| *attempt == stored.attempt));
            FoundEnd::Silent { effects: ours.map(|stored| stored.effects) }
        }
        Err(_) => FoundEnd::Unclear,
    }
}
