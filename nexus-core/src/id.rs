//! Names that must not be swapped for one another.

use crate::name_type;

name_type! {
    /// Names one backend in logs, in errors, and in `nexus.yaml`.
    pub struct BackendId;
}
name_type! {
    /// Names the company behind a backend. Two backends of one vendor count once in a panel's spread.
    pub struct VendorId;
}
name_type! {
    /// Names a model, in the words of the backend that runs it.
    pub struct ModelId;
}
name_type! {
    /// Pairs a tool call with its result. Unique within a turn.
    pub struct CallId;
}
name_type! {
    /// Names one participant of a session, such as `reviewer-2`.
    pub struct ParticipantId;
}
name_type! {
    /// Names one message of the model. Unique within a turn.
    pub struct MessageId;
}
