//! Converts errors of the servers and the connection to errors of the broker.

use nexus_fleet::FleetError;
use nexus_nats::{NatsError, NatsStoreError};

use super::records::STREAM;
use crate::error::{BrokerError, BrokerErrorKind};

const AGAIN: &str = "the same call again is safe";

/// Returns the error for servers that did not answer, or answered too late.
pub(super) fn unclear(what: &str, reason: &dyn std::fmt::Display) -> BrokerError {
    BrokerError::new(
        BrokerErrorKind::Unavailable,
        format!("{what}: the servers did not answer ({reason})"),
        AGAIN,
    )
}

/// Converts an error of the connection.
pub(super) fn fleet(error: &FleetError) -> BrokerError {
    match error {
        FleetError::Nats(error) => server(error),
        error => BrokerError::new(BrokerErrorKind::Failed, error.to_string(), ""),
    }
}

/// Converts an error of the servers.
pub(super) fn server(error: &NatsError) -> BrokerError {
    let (kind, advice) = match error {
        // The error's own text advises `nexus fleet setup`, which does not create this stream.
        NatsError::NotSetUp { what, reason } if what == STREAM => {
            return BrokerError::new(
                BrokerErrorKind::Failed,
                format!("the stream {what} is not there, and this account could not create it ({reason})"),
                "run `nexus broker status` once with an account that may create streams",
            );
        }
        error if error.is_unreachable() => (BrokerErrorKind::Unavailable, AGAIN),
        _ => (BrokerErrorKind::Failed, ""),
    };
    BrokerError::new(kind, error.to_string(), advice)
}

/// Converts an error of storing a message.
pub(super) fn store(what: &str, error: NatsStoreError) -> BrokerError {
    match error {
        NatsStoreError::Unclear(reason) if NatsStoreError::is_out_of_space(&error) => BrokerError::new(
            BrokerErrorKind::NoSpace,
            format!("{what}: the servers have no room ({reason})"),
            "free space: no stored message is lost",
        ),
        error => server(&error.into()),
    }
}

/// Converts the error of a request to the stream.
pub(super) fn request(what: &str) -> impl FnOnce(NatsError) -> BrokerError {
    move |error| match error {
        NatsError::Unclear { reason } => unclear(what, &reason),
        NatsError::NotSetUp { .. } => BrokerError::new(
            BrokerErrorKind::Failed,
            format!("{what}: the stream of messages no longer exists"),
            "restart the broker, which creates the stream again",
        ),
        error => server(&error),
    }
}

/// Returns the error for a message that cannot be written.
pub(super) fn unwritable(error: &serde_json::Error) -> BrokerError {
    BrokerError::new(BrokerErrorKind::Invalid, format!("the message cannot be written: {error}"), "")
}
