//! The tasks of one home: what a server and a command offer, without the protocol of either.
//!
//! Each call takes one request and gives one answer, or a [`TaskError`](crate::TaskError) whose words say what to call instead. Their JSON schemas
//! are what a model reads of a tool.

mod answer;
mod request;

pub use self::{
    answer::{
        AgentList, AgentView, AttemptView, BaselineView, CommitView, CriterionView, CursorView,
        EntryProgress, EntryView, LandingOutcome, LogEntryView, SpentView, StepView, TaskArtifact,
        TaskCreated, TaskFramed, TaskLanding, TaskLogPage, TaskPage, TaskReport, TaskResult, TaskRow,
        TaskTurnReport, TierList, TierView, UnitView, VerdictView, VoteView,
    },
    request::{
        AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TaskArtifactRequest, TaskCancelRequest,
        TaskCreateRequest, TaskLandRequest, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
        TaskReopenRequest, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest, TierListRequest,
        TierRegisterRequest,
    },
};
