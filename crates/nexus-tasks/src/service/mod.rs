//! The tasks of one home: what a server and a command offer, without the protocol of either.
//!
//! Each call takes one request and gives one answer, or a [`TaskError`](crate::TaskError) whose words say what to call instead. Their JSON schemas
//! are what a model reads of a tool.

mod admission;
mod after_step;
mod agent_types;
mod answer;
mod artifact;
mod background;
mod cartographer;
mod creation;
mod follow_up_progress;
mod framing_job;
mod inner;
mod maps;
mod memory;
mod recovery;
mod report;
mod request;
mod reviewing_vendors;
mod settle;
mod step_job;
mod tasks;
mod unsettled;
mod watch;

pub use self::{
    answer::{
        AgentList, AgentView, AttemptView, BaselineOutcome, BaselineView, CommitView, CriterionState,
        CriterionView, CursorView, EntryProgress, EntryView, LandingOutcome, LogEntryView, SpentView,
        StepEndWord, StepView, TaskArtifact, TaskCreated, TaskFramed, TaskLanding, TaskLogPage, TaskPage,
        TaskRemoved, TaskReport, TaskResult, TaskRow, TaskTurnReport, TierList, TierView, UnitEnd, UnitView,
        VerdictView, VoteView,
    },
    creation::{CreationProgress, TaskCreation},
    inner::TasksOptions,
    memory::{CompletedTask, NoMemory, TaskMemory},
    request::{
        AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TaskArtifactRequest, TaskCancelRequest,
        TaskCreateRequest, TaskLandRequest, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
        TaskRemoveRequest, TaskReopenRequest, TaskResultRequest, TaskRunTurnRequest, TaskStatusRequest,
        TierListRequest, TierRegisterRequest,
    },
    tasks::Tasks,
};
