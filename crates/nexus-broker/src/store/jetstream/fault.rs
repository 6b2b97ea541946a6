//! What the servers and the connection report, in our words.

use nexus_fleet::{FleetError, FleetStoreError};

use crate::error::{BrokerError, BrokerErrorKind};

/// What servers say that have no room, or no more for the account. Source: errors 10002, 10023, 10028, 10047, 10077 of nats-server.
const NO_SPACE: [&str; 4] = ["resource limits exceeded", "insufficient", "maximum bytes", "no space"];
const AGAIN: &str = "the same call again is safe";

/// The servers did not answer, or not in time.
pub(super) fn unclear(what: &str, reason: &dyn std::fmt::Display) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Unavailable,
        format!("{what}: the servers did not answer ({reason})"),
        AGAIN,
    )
}

/// A fault of the connection.
pub(super) fn fleet(error: &FleetError) -> BrokerError {
    let kind = match error {
        FleetError::Unreachable { .. } | FleetError::Unclear { .. } => BrokerErrorKind::Unavailable,
        _ => BrokerErrorKind::Failed,
    };
    let instead = if kind == BrokerErrorKind::Unavailable { AGAIN } else { "" };
    BrokerError::new(kind, error.to_string(), instead)
}

/// Why a message of the stream was not stored. [`FleetStoreError::Superseded`] is for the caller to tell.
pub(super) fn store(what: &str, error: FleetStoreError) -> BrokerError {
    match error {
        // The client has no kinds for what servers say that are full.
        FleetStoreError::Unclear(reason) if NO_SPACE.iter().any(|words| reason.contains(words)) => {
            BrokerError::new(
                BrokerErrorKind::NoSpace,
                format!("{what}: the servers have no room ({reason})"),
                "make room: nothing that was stored is lost",
            )
        }
        FleetStoreError::NoStream => BrokerError::new(
            BrokerErrorKind::Failed,
            format!("{what}: the stream of messages is not there any more"),
            "start the broker again, which makes it",
        ),
        FleetStoreError::Superseded => BrokerError::new(
            BrokerErrorKind::Conflict,
            format!("{what}: another wrote first"),
            "read it again",
        ),
        error => fleet(&error.into()),
    }
}

/// A request to the servers that did not succeed.
pub(super) fn request(what: &str, error: &dyn std::error::Error) -> BrokerError {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    let reason = format!("{error}{source}");
    if reason.contains("stream not found") {
        return store(what, FleetStoreError::NoStream);
    }
    unclear(what, &reason)
}

/// A message that cannot be written.
pub(super) fn unwritable(error: &serde_json::Error) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Invalid, format!("the message cannot be written: {error}"), "")
}
