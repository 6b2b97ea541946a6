//! The tasks of one home, as a server and a command offer them, without the protocol of either.
//!
//! Each call takes one request and returns one answer, or a [`TaskError`](crate::TaskError) with the advice what to call next. Models read
//! the JSON schemas of requests and answers as the descriptions of tools.

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
mod queue_event;
mod queue_run;
mod recovery;
mod report;
mod request;
mod reviewing_vendors;
mod settle;
mod step_job;
mod task_queue;
mod tasks;
mod unsettled;
mod watch;

pub use self::{
    answer::{
        AgentList, AgentView, AttemptView, BaselineOutcome, BaselineView, CommitView, CriterionState,
        CriterionView, CursorView, EntryProgress, EntryView, LandingOutcome, LogEntryView, QueuePage,
        QueueRow, QueuedView, SpentView, StepEndWord, StepView, TaskArtifact, TaskCreated, TaskFramed,
        TaskLanding, TaskLogPage, TaskPage, TaskRemoved, TaskReport, TaskResult, TaskRow, TaskTurnReport,
        TierList, TierView, UnitEnd, UnitView, VerdictView, VoteView,
    },
    creation::{CreationProgress, TaskCreation},
    inner::TasksOptions,
    memory::{CompletedTask, NoMemory, TaskMemory},
    queue_event::QueueEvent,
    request::{
        AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TaskArtifactRequest, TaskCancelRequest,
        TaskCreateRequest, TaskLandRequest, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
        TaskQueueRequest, TaskRemoveRequest, TaskReopenRequest, TaskResultRequest, TaskRunTurnRequest,
        TaskStatusRequest, TierListRequest, TierRegisterRequest,
    },
    task_queue::TaskQueue,
    tasks::{TaskPrograms, Tasks},
};
