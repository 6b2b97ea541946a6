//! Why a message, a document or a trigger could not be read or changed.

use std::fmt;

use nexus_conversations::{ConversationError, ConversationErrorKind};

/// Why a call failed, named for what the caller can do next.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrokerErrorKind {
    /// An argument is not one of those that are taken. Nothing was changed.
    Invalid,
    /// There is nothing by this name.
    Unknown,
    /// The scope of the sender does not allow it.
    NotAllowed,
    /// The queue of the target has as many messages as it may have. Nothing was stored.
    QueueFull,
    /// It was changed meanwhile, or the lease has lapsed. Nothing was changed.
    Conflict,
    /// The store cannot be reached. The call may or may not have taken effect; the same call again is safe.
    Unavailable,
    /// What is stored is not what this version writes. Nothing was changed.
    Damaged,
    /// The disk, or the server's storage, is full. Nothing was lost.
    NoSpace,
    /// Another failure.
    Failed,
}

/// Why a call failed, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerError {
    /// What kind of failure it is.
    pub kind: BrokerErrorKind,
    /// What failed, and where.
    pub message: String,
    /// What to do instead. Empty where there is nothing better than to try again.
    pub instead: String,
}

impl BrokerError {
    /// A failure of this kind.
    pub fn new(kind: BrokerErrorKind, message: impl Into<String>, instead: impl Into<String>) -> Self {
        Self { kind, message: message.into(), instead: instead.into() }
    }

    /// A failure of a conversation as one of the broker.
    pub(crate) fn of_conversation(error: &ConversationError) -> Self {
        use ConversationErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Unknown => BrokerErrorKind::Unknown,
            Kind::NameTaken | Kind::InUse => BrokerErrorKind::Conflict,
            Kind::Damaged | Kind::NewerVersion => BrokerErrorKind::Damaged,
            Kind::NoSpace => BrokerErrorKind::NoSpace,
            Kind::InvalidName | Kind::NoSuchMessage => BrokerErrorKind::Invalid,
            _ => BrokerErrorKind::Failed,
        };
        Self::new(kind, error.to_string(), "")
    }
}

impl fmt::Display for BrokerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.instead.is_empty() {
            write!(f, ": {}", self.instead)?;
        }
        Ok(())
    }
}

impl std::error::Error for BrokerError {}
