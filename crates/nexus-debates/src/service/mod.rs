//! The debates of one home: the calls that a server and a command offer, independent of their protocols.
//!
//! Each call takes one request and returns one answer, or a [`DebateError`](crate::DebateError) with advice. The JSON
//! schemas of both describe the tool to a model.

mod answer;
mod create;
mod debates;
mod look;
mod remove;
mod request;
mod walk;

pub use self::{
    answer::{
        DebateClaimView, DebatePage, DebateRemoved, DebateResult, DebateRoundView, DebateRow, DebateTask,
        DebateView, PanelistView,
    },
    debates::{Debates, DebatesOptions},
    request::{
        DebateAdvanceRequest, DebateCancelRequest, DebateCreateRequest, DebateListRequest,
        DebateRemoveRequest, DebateResultRequest, DebateSpawnTaskRequest, DebateStatusRequest,
    },
};
