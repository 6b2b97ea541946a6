//! Tasks: a goal walked to reviewed work, step by step, by agents on any vendor.
//!
//! [`Tasks`] has the calls: it creates tasks, frames them, runs their steps, shows and lands them. [`TaskTools`] offers them to MCP
//! clients, the `nexus` command to a person. Only an independent review completes a task. The crate uses only the public
//! interface of the engine. Linux only.
//!
//! | type | is |
//! | --- | --- |
//! | [`ProblemBrief`] | checked bounds of a task: problem, success criteria, scope, plan |
//! | [`Plan`], [`PlanStep`] | the plan's entries, and the steps that they form: work and its review |
//! | [`Handoff`] | answer that an execution agent submits about its work |
//! | [`StepEvidence`] | the tests, probes and diff lines of a step: all that a verdict may cite |
//! | [`ReviewVerdict`] | one reviewer's judgement of a step |
//! | [`PanelReview`] | the judgement of a panel: the union of its votes, if enough vendors took part |
//! | [`Reflection`], [`Amendment`] | answer of a reflector to a verdict that does not advance |
//! | [`Assignment`](nexus_work::Assignment), [`run_agent`](nexus_work::run_agent) | one agent's part, and the turns in which it submits an answer |
//! | [`Framing`], [`Goal`] | from a goal to a brief: the orchestrator's part |
//! | [`AgentPhase`], [`Prompts`], [`briefing`], [`Quote`](nexus_work::Quote) | tools and prompts of an agent, and texts of others as it reads them |
//! | [`TestRun`], [`ProbeRecord`] | results of the project's tests, or of a program that prints observations, on trees |
//! | [`TaskSettings`] | bounds of a task that are not in its brief: tests, sandbox, retries, budget |
//! | [`StepAttempt`] | one attempt at a step: its units, its review, and the reflector |
//! | [`StepRecord`] | record of one attempt at a step |
//! | [`TaskStore`], [`Task`], [`TaskData`] | the folders of tasks, and their contents |
//! | [`TaskConfiguration`], [`TasksSection`] | the section `tasks` of `nexus.yaml` |
//! | [`task_report`] | the report of a task: one HTML page |
//! | [`TaskState`], [`TaskEvent`] | the state of a task in its status file, and every transition of it |
//!
//! The answer of an agent arrives as a *draft*: plain data with a JSON schema, whose texts are data and never instructions. One function
//! for each type turns the draft into the checked value, or returns every fault at once. A checked value has private fields; values read
//! from a file pass the same function. No rule here depends on a prompt. An agent that ignores every instruction still cannot create a
//! verdict that advances with a concern, or a plan whose slices overlap.
//!
//! The crate opens no sockets.

mod agent;
mod checks;
mod evidence;
mod framing;
mod handoff;
mod mcp;
mod problem_brief;
mod report;
mod review;
mod service;
mod settings;
mod step;
mod step_record;
mod store;
mod task_error;
mod task_state;

pub use agent::{
    ADVICE_HEADING, AgentPhase, CRITERION_OF_STEP, PromptError, Prompts, briefing, shown_handoff,
    shown_verdict,
};
pub use checks::{
    Baseline, CheckError, CheckOutput, Checks, KeptText, ProbeAnswer, ProbeDifference, ProbeDraft, ProbeFile,
    ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, ProbeStore, ProgramExit, SideOutcome,
    SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun, shown_baseline,
    shown_probe, shown_test_run, spoken_probe,
};
pub use evidence::{EvidenceId, InvalidEvidenceId, StepEvidence};
pub use framing::{Framed, Framing, FramingFailure, FramingReport, Goal};
pub use handoff::{BandOutcome, Claim, Handoff, HandoffAction, HandoffDraft};
pub use mcp::TaskTools;
/// Budget in requests and settings.
pub use nexus_work::WorkBudget;
pub use problem_brief::{
    Amendment, BriefDraft, BriefLimits, Criterion, Plan, PlanEntry, PlanEntryDraft, PlanStep, ProblemBrief,
};
pub use report::task_report;
pub use review::{
    Concern, CriterionJudgement, Judgement, PanelReview, Reflection, ReviewBasis, ReviewDecision,
    ReviewVerdict, ReviewVote, VerdictDraft,
};
pub use service::{
    AgentList, AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, AgentView, AttemptView,
    BaselineOutcome, BaselineView, CommitView, CompletedTask, CreationProgress, CriterionState,
    CriterionView, CursorView, EntryProgress, EntryView, LandingOutcome, LogEntryView, NoMemory, QueueEvent,
    QueuePage, QueueRow, QueuedView, SpentView, StepEndWord, StepView, TaskArtifact, TaskArtifactRequest,
    TaskCancelRequest, TaskCreateRequest, TaskCreated, TaskCreation, TaskFramed, TaskLandRequest,
    TaskLanding, TaskListRequest, TaskLogPage, TaskLogRequest, TaskMemory, TaskOrchestrateRequest, TaskPage,
    TaskPrograms, TaskQueue, TaskQueueRequest, TaskRemoveRequest, TaskRemoved, TaskReopenRequest, TaskReport,
    TaskResult, TaskResultRequest, TaskRow, TaskRunTurnRequest, TaskStatusRequest, TaskTurnReport, Tasks,
    TasksOptions, TierList, TierListRequest, TierRegisterRequest, TierView, UnitEnd, UnitView, VerdictView,
    VoteView,
};
pub use settings::{SandboxKind, SandboxSettings, TaskConfiguration, TaskSettings, TasksSection};
pub use step::{
    AgentEnding, AgentProgress, AttemptPlace, ReviewOutcome, StepAgent, StepAttempt, StepInterrupted,
    StepReview, StepRole, StepWatcher, StepWork,
};
pub use step_record::{SilentReviewer, StepRecord, UnitRecord, spoken_step};
pub use store::{
    FollowUp, QueueEntry, SettledStep, StepIntent, Task, TaskData, TaskId, TaskListing, TaskLogEvent,
    TaskSnapshot, TaskStore,
};
pub use task_error::{TaskError, TaskErrorKind};
pub use task_state::{Cursor, StepEnd, TaskEvent, TaskState, TaskStatus, TaskStatusWord, WrongStatus};
