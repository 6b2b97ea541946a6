//! Messages between agents while they work, triggers that start work, and what is kept of both.
//!
//! | to | see |
//! | --- | --- |
//! | say something to an agent | [`Envelope`], [`Payload`] |
//! | keep messages on one machine | [`BrokerStore`] |
//!
//! What a message is stands in [`message`], what holds of its way to the one who handles it in [`BrokerStore`].

mod error;
pub mod message;
mod rfc3339;
mod store;

pub use error::{BrokerError, BrokerErrorKind};
pub use message::{Address, Envelope, EnvelopeId, MessagePriority, Payload, ReportedStatus, envelope_schema};
pub use store::{
    BrokerStore, Delivery, Document, DocumentKind, Expected, HandlingLease, LoggedEnvelope, LoggedEvent,
    PutOutcome, QueueLimits, QueueStatus, SqliteStore,
};
