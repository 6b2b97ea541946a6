//! The debates of one home: what a server and a command offer, without the protocol of either.
//!
//! Each call takes one request and gives one answer, or a [`DebateError`](crate::DebateError) whose words say what to call instead. Their JSON
//! schemas are what a model reads of a tool.

mod answer;
mod create;
mod debates;
mod look;
mod request;
mod walk;

pub use self::{
    answer::{
        DebateClaimView, DebatePage, DebateResult, DebateRoundView, DebateRow, DebateTask, DebateView,
        PanelistView,
    },
    debates::{Debates, DebatesOptions},
    request::{
        DebateAdvanceRequest, DebateCancelRequest, DebateCreateRequest, DebateListRequest,
        DebateResultRequest, DebateSpawnTaskRequest, DebateStatusRequest,
    },
};
