//! What keeps the fleet from working, beside the failures of a turn.

use std::io;

use nexus_core::{BackendId, ErrorKind, Retry, TurnError};

/// Why the servers could not be used.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Nobody answers at the addresses.
    #[error("no server of the fleet answers at {servers}: {reason}")]
    Unreachable {
        /// The addresses, as they are configured.
        servers: String,
        /// Why.
        reason: String,
    },
    /// The credentials are not accepted.
    #[error("the servers of the fleet do not accept the credentials: {reason}")]
    Refused {
        /// Why.
        reason: String,
    },
    /// The server is too old.
    #[error("the server of the fleet is nats-server {found}, and 2.11 or newer is needed")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// The account has no JetStream, or no right to use it.
    #[error("the servers of the fleet have no JetStream for this account: {reason}")]
    NoJetStream {
        /// Why.
        reason: String,
    },
    /// A stream or a bucket is not there, and this account may not make it.
    #[error("{what} is not there: `nexus fleet setup` makes it ({reason})")]
    NotSetUp {
        /// The stream or bucket.
        what: String,
        /// Why it could not be made.
        reason: String,
    },
    /// The account's permissions do not include this subject.
    #[error("the account of this program may not use {subject}")]
    Forbidden {
        /// The subject.
        subject: String,
    },
    /// The server did not answer in time, so it is not known whether it did what it was asked.
    #[error("the servers of the fleet did not answer: {reason}")]
    Unclear {
        /// What was asked.
        reason: String,
    },
    /// What was stored is not what can be read.
    #[error("{what} cannot be read: {reason}")]
    Unreadable {
        /// The object or message.
        what: String,
        /// Why.
        reason: String,
    },
    /// A prompt, a result or an event is larger than the fleet takes.
    #[error("{what} has {bytes} bytes, and {most} at most go to another machine")]
    TooLarge {
        /// What it is.
        what: String,
        /// Its size, in bytes.
        bytes: u64,
        /// The largest that is taken, in bytes.
        most: u64,
    },
    /// A file of the settings cannot be read.
    #[error("{what} cannot be read")]
    Settings {
        /// Which file.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A worker of this name is at work in the pool.
    #[error(
        "a worker named {name} is at work in the pool {pool}: give this one another name, or wait 30 s after it was killed"
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
        /// Why not, and the way out.
        reason: String,
    },
    /// There is nothing that a worker could offer.
    #[error("this worker has no backend to offer: {reason}")]
    NothingToOffer {
        /// Why each cannot start.
        reason: String,
    },
}

impl FleetError {
    /// The failure of a turn of `backend` that has not begun.
    pub(crate) fn into_turn_error(self, backend: &BackendId) -> TurnError {
        let kind = match &self {
            Self::Unreachable { .. } | Self::Unclear { .. } => ErrorKind::Transport,
            Self::Refused { .. } => ErrorKind::Unauthenticated,
            Self::Forbidden { .. } => ErrorKind::Forbidden,
            Self::Unreadable { .. } => ErrorKind::Protocol,
            Self::TooLarge { .. } => ErrorKind::InvalidRequest,
            Self::TooOld { .. }
            | Self::NoJetStream { .. }
            | Self::NotSetUp { .. }
            | Self::Settings { .. }
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
