//! Messages: an envelope with sender and recipient, and a payload by type.

mod address;
mod envelope;
mod id;
mod payload;

pub use address::Address;
pub(crate) use envelope::{Chain, is_zero};
pub use envelope::{Envelope, MessagePriority, envelope_schema};
pub use id::EnvelopeId;
pub use payload::{Payload, ReportedStatus};
