//! What a message is: an envelope that says whose it is and for whom, and a payload by type.

mod address;
mod envelope;
mod payload;

pub use address::Address;
pub use envelope::{Envelope, EnvelopeId, MessagePriority};
pub use payload::{Payload, ReportedStatus};
