//! Errors of the fleet itself, beside the failures of a turn.

use std::io;

use nexus_core::{BackendId, ErrorKind, Retry, TurnError};
use nexus_nats::{NatsError, NatsStoreError};

/// Why the servers could not be used.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The servers, or the connection to them.
    #[error(transparent)]
    Nats(#[from] NatsError),
    /// Stored data cannot be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// The object or message.
        what: String,
        /// Why.
        reason: String,
    },
    /// A prompt, a result or an event is larger than the fleet takes.
    #[error("{what} has {bytes} bytes, more than the limit of {most} for another machine")]
    TooLarge {
        /// Name of the data.
        what: String,
        /// Its size, in bytes.
        bytes: u64,
        /// The largest that is taken, in bytes.
        most: u64,
    },
    /// A file of the settings cannot be read.
    #[error("{what} cannot be read")]
    Settings {
        /// The file.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A worker of this name is at work in the pool.
    #[error(
        "a worker named {name} is already running in the pool {pool}: give this worker another name, or wait \
        30 s after the other was killed"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// The pool.
        pool: String,
    },
    /// A login that is shared cannot be lent by this worker.
    #[error("the login {login} cannot be lent: {reason}")]
    LoginOwner {
        /// The login.
        login: String,
        /// The reason, and advice.
        reason: String,
    },
    /// There is nothing that a worker could offer.
    #[error("this worker has no usable backend: {reason}")]
    NothingToOffer {
        /// Why each cannot start.
        reason: String,
    },
}

impl From<NatsStoreError> for FleetError {
    fn from(error: NatsStoreError) -> Self {
        Self::Nats(error.into())
    }
}

impl FleetError {
    /// The failure of a turn of `backend` that has not begun.
    pub(crate) fn into_turn_error(self, backend: &BackendId) -> TurnError {
        let kind = match &self {
            Self::Nats(error) => match error {
                NatsError::Unreachable { .. } | NatsError::Unclear { .. } => ErrorKind::Transport,
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
