//! Errors of the fleet itself, in contrast to failures of a turn.

use std::io;

use nexus_core::{BackendId, ErrorKind, Retry, TurnError};
use nexus_nats::{NatsError, NatsStoreError};

/// Reason why the servers could not be used.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Error of the servers, or of the connection to them.
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// Stored data cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// Name of the object or message.
        what: String,
        /// Reason why it cannot be read.
        reason: String,
    },
    /// A prompt, a result or an event exceeds the size limit.
    #[error("{what} has {bytes} bytes, more than the limit of {most} for another machine")]
    TooLarge {
        /// Name of the data.
        what: String,
        /// Size, in bytes.
        bytes: u64,
        /// Maximum size, in bytes.
        most: u64,
    },
    /// A file of the settings cannot be read.
    #[error("{what} cannot be read")]
    Settings {
        /// Path of the file.
        what: String,
        /// Error of the file.
        #[source]
        source: io::Error,
    },
    /// A worker of this name already runs in the pool.
    #[error(
        "a worker named {name} is already running in the pool {pool}: give this worker another name, or wait \
        30 s after the other was killed"
    )]
    NameTaken {
        /// Name of the worker.
        name: String,
        /// Name of the pool.
        pool: String,
    },
    /// This worker cannot lend a shared login.
    #[error("the login {login} cannot be lent: {reason}")]
    LoginOwner {
        /// Name of the login.
        login: String,
        /// The reason, and advice.
        reason: String,
    },
    /// The worker has no backend to offer.
    #[error("this worker has no usable backend: {reason}")]
    NothingToOffer {
        /// Reason why each backend cannot start.
        reason: String,
    },
}

impl From<NatsStoreError> for FleetError {
    fn from(error: NatsStoreError) -> Self {
        Self::Nats(error.into())
    }
}

impl FleetError {
    /// Returns the failure of a turn of `backend` that has not begun.
    pub(crate) fn into_turn_error(self, backend: &BackendId) -> TurnError {
        let kind = match &self {
            Self::Nats(error) => match error {
                error if error.is_unreachable() => ErrorKind::Transport,
                NatsError::Refused { .. } => ErrorKind::Unauthenticated,
                NatsError::Forbidden { .. } => ErrorKind::Forbidden,
                NatsError::ObjectUnreadable { .. } => ErrorKind::Protocol,
                _ => ErrorKind::NotInstalled,
            },
            Self::Unreadable { .. } => ErrorKind::Protocol,
            Self::TooLarge { .. } => ErrorKind::InvalidRequest,
            Self::Settings { .. }
            | Self::NameTaken { .. }
            | Self::LoginOwner { .. }
            | Self::NothingToOffer { .. } => ErrorKind::NotInstalled,
        };
        TurnError::new(kind, backend.clone())
            .with_retry(Retry::after_failure(kind, None))
            .with_message(self.to_string())
            .with_source(self)
    }
}
