//! Subjects and messages of the fleet, and their version. `docs/reference/fleet-protocol.md` specifies them for other
//! programs.

#[cfg(test)]
mod document_tests;
mod login;
mod messages;
mod outcome;
mod subjects;

pub(crate) use nexus_nats::StoredObject;

pub(crate) use login::{
    LentToken, LoginAnswer, LoginFailure, LoginFailureKind, LoginOutcome, LoginQuestion, LoginRefusal,
    LoginReply, LoginRequest,
};
pub(crate) use messages::{
    CallerAnswer, CallerMessage, Control, Frame, Item, Payload, QueuedTurn, StartedBy, StoredEffects,
    StoredResult, TravellingFiles, TurnBody, WorkerCard, WorkerCommand,
};
pub(crate) use outcome::{WireForget, WireOutcome};
pub(crate) use subjects::*;
pub use subjects::{Priority, name_fault};

/// Version of the messages. A worker refuses turns of a later version by name, and runs turns of the earlier
/// versions that it knows.
pub const PROTOCOL_VERSION: u32 = 2;

/// Version of turns and login requests that use nothing of a later one. Programs of the first version accept them.
pub(crate) const FIRST_VERSION: u32 = 1;
/// Version of a turn with travelling files. A worker that does not know such files would run the turn without them.
pub(crate) const FILES_VERSION: u32 = 2;

/// Maximum size of a document inside a message, in bytes. A larger document goes through the object store.
pub(crate) const INLINE_BYTES: usize = 256 << 10;
