//! Errors of the servers and of the connection to them.

use std::io;

use async_nats::jetstream::context::{PublishError, PublishErrorKind};

/// Error texts of servers without space, or without space for the account. Source: errors 10002, 10023, 10028, 10047, 10077 of
/// nats-server.
const NO_SPACE: [&str; 4] = ["resource limits exceeded", "insufficient", "maximum bytes", "no space"];

/// Texts of servers without a majority. Source: error 10008 of nats-server.
const NO_MAJORITY: [&str; 2] = ["error code 10008", "temporarily unavailable"];
/// Texts of the client about servers that did not answer. Source: async-nats 0.51, as while a cluster elects a leader.
const NO_ANSWER: [&str; 2] = ["timed out", "no responders"];
/// Text of a server of a cluster that still stores another message on the subject. The client has a kind for error 10071
/// alone. Source: observed with nats-server 2.15 and three replicas.
const IN_PROCESS: &str = "error code 10164";

/// Error of the servers in the section `fleet`, or of the connection to them.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// No server answers at the addresses.
    #[error("no server of the fleet answers at {servers}: {reason}")]
    Unreachable {
        /// The addresses, as they are configured.
        servers: String,
        /// The client's error.
        reason: String,
    },
    /// The servers reject the credentials.
    #[error("the servers of the fleet do not accept the credentials: {reason}")]
    Refused {
        /// The client's error.
        reason: String,
    },
    /// The server is too old.
    #[error("the server of the fleet is nats-server {found}, but 2.11 or newer is needed")]
    TooOld {
        /// Version of the server.
        found: String,
    },
    /// A file of the credentials cannot be read.
    #[error("{file} cannot be read")]
    CredentialsFile {
        /// The path.
        file: String,
        /// The error of the file system.
        #[source]
        source: io::Error,
    },
    /// A stream or a bucket is missing, and this account may not create it.
    #[error("{what} does not exist: create it with `nexus fleet setup` ({reason})")]
    NotSetUp {
        /// The stream or bucket.
        what: String,
        /// The server's error.
        reason: String,
    },
    /// Too few servers of the cluster run to decide anything, or they are electing a leader.
    #[error(
        "the servers of the fleet have no majority: start more of them, or try again in some seconds ({reason})"
    )]
    NoMajority {
        /// The server's error.
        reason: String,
    },
    /// The account's permissions do not include this subject.
    #[error("the account of this program may not use {subject}")]
    Forbidden {
        /// The subject.
        subject: String,
    },
    /// The server did not answer in time. The outcome of the request is unknown.
    #[error("the servers of the fleet did not answer: {reason}")]
    Unclear {
        /// The request, and the client's error.
        reason: String,
    },
    /// An object is missing, or differs from the stored one.
    #[error("{name} cannot be read: {reason}")]
    ObjectUnreadable {
        /// Name of the object.
        name: String,
        /// Failure of the last attempt.
        reason: String,
    },
}

impl NatsError {
    /// Creates a [`NoMajority`](Self::NoMajority) error if the text of a client's error says so, otherwise an
    /// [`Unclear`](Self::Unclear) one.
    pub fn unclear(error: impl std::fmt::Display) -> Self {
        let reason = error.to_string();
        match NO_MAJORITY.iter().any(|words| reason.contains(words)) {
            true => Self::NoMajority { reason },
            false => Self::Unclear { reason },
        }
    }

    /// Returns true if the outcome of the request is unknown, because the servers did not answer or have no majority.
    pub fn is_unclear(&self) -> bool {
        matches!(self, Self::Unclear { .. } | Self::NoMajority { .. })
    }

    /// Returns true if no server answers at all, or [`is_unclear`](Self::is_unclear).
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. }) || self.is_unclear()
    }

    /// Classifies why a stream or bucket could not be read or created. It may exist if the servers cannot answer.
    pub(crate) fn of_absence(what: &str, error: &dyn std::fmt::Display) -> Self {
        match Self::unclear(error) {
            Self::Unclear { reason } if !NO_ANSWER.iter().any(|words| reason.contains(words)) => {
                Self::NotSetUp { what: what.to_owned(), reason }
            }
            error => error,
        }
    }

    /// Classifies the error of a request to a stream or bucket.
    ///
    /// Uses the error's text, because each request of the client has an error type of its own.
    pub(crate) fn of_request(what: &str, error: &dyn std::fmt::Display) -> Self {
        let reason = error.to_string();
        match reason.contains("stream not found") {
            true => Self::NotSetUp { what: what.to_owned(), reason },
            false => Self::unclear(reason),
        }
    }
}

/// Reason why a message was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsStoreError {
    /// A newer message exists on the subject, or the servers are storing one.
    Superseded,
    /// The stream, or the subject's share of the stream, has its maximum number of messages.
    Full,
    /// No server stores the subject: its stream is missing, or has no leader at present.
    NoStream,
    /// The account may not use this subject.
    Forbidden(String),
    /// The outcome is unknown.
    Unclear(String),
}

impl NatsStoreError {
    /// Returns true if the servers have no space. The client has no error kinds for that.
    pub fn is_out_of_space(&self) -> bool {
        matches!(self, Self::Unclear(reason) if NO_SPACE.iter().any(|words| reason.contains(words)))
    }
}

impl From<PublishError> for NatsStoreError {
    fn from(error: PublishError) -> Self {
        match error.kind() {
            PublishErrorKind::WrongLastSequence => return Self::Superseded,
            PublishErrorKind::StreamNotFound => return Self::NoStream,
            _ => {}
        }
        // The client has no kind for error 10077 of the server.
        let reason = error.to_string();
        if reason.contains(IN_PROCESS) {
            Self::Superseded
        } else if reason.contains("maximum messages") {
            Self::Full
        } else {
            Self::Unclear(reason)
        }
    }
}

impl From<NatsStoreError> for NatsError {
    fn from(error: NatsStoreError) -> Self {
        match error {
            NatsStoreError::Forbidden(subject) => Self::Forbidden { subject },
            NatsStoreError::NoStream => Self::unclear("no server leads the stream of the message"),
            NatsStoreError::Superseded => Self::unclear("another message came first"),
            NatsStoreError::Full => Self::unclear("the stream is full"),
            NatsStoreError::Unclear(reason) => Self::unclear(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_that_cannot_answer_are_not_told_as_a_missing_stream() {
        let of = |reason: &str| NatsError::of_absence("NEXUS_BROKER", &reason).to_string();
        let none =
            of("jetstream error: JetStream system temporarily unavailable (code 503, error code 10008)");
        assert!(none.contains("no majority") && !none.contains("does not exist"), "{none}");
        let slow = of("jetstream request timed out");
        assert!(slow.contains("did not answer") && !slow.contains("does not exist"), "{slow}");
        let missing = of("stream not found (code 404, error code 10059)");
        assert!(missing.contains("NEXUS_BROKER does not exist"), "{missing}");
        let store =
            NatsStoreError::Unclear("system temporarily unavailable (code 503, error code 10008)".to_owned());
        let none = NatsError::from(store);
        assert!(matches!(none, NatsError::NoMajority { .. }) && none.is_unclear(), "{none}");
        let unled = NatsError::from(NatsStoreError::NoStream);
        assert!(matches!(unled, NatsError::Unclear { .. }), "{unled}");
    }

    #[test]
    fn a_message_that_is_being_stored_comes_first() {
        let text = "wrong last sequence (code 400, error code 10164)";
        let error = PublishError::with_source(PublishErrorKind::Other, text);
        assert_eq!(NatsStoreError::from(error), NatsStoreError::Superseded);
    }
}
