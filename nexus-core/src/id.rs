//! Types for names, so that two kinds of names cannot be swapped.

use crate::name_type;

name_type! {
    /// Name of one backend in logs, in errors, and in `nexus.yaml`.
    pub struct BackendId;
}
name_type! {
    /// Name of the company behind a backend. Two backends of one vendor count once in a panel's spread.
    pub struct VendorId;
}
name_type! {
    /// Name of a model, as the backend that runs it calls it.
    pub struct ModelId;
}
name_type! {
    /// Id that pairs a tool call with its result. Unique within a turn.
    pub struct CallId;
}
name_type! {
    /// Name of one participant of a session, such as `reviewer-2`.
    pub struct ParticipantId;
}
name_type! {
    /// Id of one message of the model. Unique within a turn.
    pub struct MessageId;
}
