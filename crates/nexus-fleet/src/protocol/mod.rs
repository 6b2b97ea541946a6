//! Subjects, messages, and their version. `docs/reference/fleet-protocol.md` describes the same for other languages.

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

/// The version of a turn, or a question for a login, that needs nothing of a later one: programs of the first version take it.
pub(crate) const FIRST_VERSION: u32 = 1;
/// The version of a turn whose files travel: a worker that does not know of them would run it without.
pub(crate) const FILES_VERSION: u32 = 2;

/// Larger documents go through the object store, in bytes.
pub(crate) const INLINE_BYTES: usize = 256 << 10;
