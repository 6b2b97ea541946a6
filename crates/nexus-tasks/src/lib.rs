//! Tasks: a goal walked to reviewed work, step by step, by agents on any vendor.
//!
//! [`Tasks`] has the calls: it creates tasks, frames them, runs their steps, shows and lands them. [`TaskTools`] offers them to MCP clients,
//! the `nexus` command to a person. Only an independent review completes anything. It uses the public interface of the engine alone. Linux only.
//!
//! | type | is |
//! | --- | --- |
//! | [`ProblemBrief`] | bounds of a task that were checked: problem, success criteria, scope, plan |
//! | [`Plan`], [`PlanStep`] | the plan's entries, and the steps that they make: work and its review |
//! | [`Handoff`] | what an execution agent hands in about its work |
//! | [`StepEvidence`] | the tests, probes and diff lines of a step: all that a verdict may cite |
//! | [`ReviewVerdict`] | one reviewer's judgement of a step |
//! | [`PanelReview`] | the judgement of a panel: its union, and whether enough vendors took part |
//! | [`Reflection`], [`Amendment`] | what a reflector may answer to a verdict that does not advance |
//! | [`Assignment`](nexus_work::Assignment), [`run_agent`](nexus_work::run_agent) | one agent's part, and the turns in which it hands something in |
//! | [`Framing`], [`Goal`] | from a goal to a brief: the orchestrator's part |
//! | [`AgentPhase`], [`Prompts`], [`briefing`], [`Quote`](nexus_work::Quote) | which tools an agent has, what it is told, and how it is shown what others wrote |
//! | [`TestRun`], [`ProbeRecord`] | what the project's tests, or a program that prints observations, say of trees |
//! | [`TaskSettings`] | what bounds a task beside its brief: tests, sandbox, retries, budget |
//! | [`StepAttempt`] | one attempt at a step: its units, its review, and the reflector |
//! | [`StepRecord`] | what one attempt at a step came to |
//! | [`TaskStore`], [`Task`], [`TaskData`] | the folders of tasks, and what is in one |
//! | [`TaskConfiguration`], [`TasksSection`] | the section `tasks` of `nexus.yaml` |
//! | [`task_report`] | the report of a task: one HTML page |
//! | [`TaskState`], [`TaskEvent`] | what a status file holds of a task, and every transition of it |
//!
//! What an agent writes arrives as a *draft*: plain data with a JSON schema, whose texts are data and nothing else. One
//! function a type makes the checked value from it, or tells everything that is wrong at once. A checked value has private
//! fields; what is read from a file goes through the same function. So no rule here depends on a prompt: an agent that
//! ignores every instruction cannot make a verdict that advances with a concern, or a plan whose slices overlap.
//!
//! Nothing here opens a socket.

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

pub use agent::{AgentPhase, PromptError, Prompts, briefing, shown_handoff, shown_verdict};
pub use checks::{
    Baseline, CheckError, CheckOutput, Checks, KeptText, ProbeAnswer, ProbeDifference, ProbeDraft, ProbeFile,
    ProbeRecord, ProbeRun, ProbeRunEnd, ProbeSide, ProbeSides, ProbeStore, ProgramExit, SideOutcome,
    SuiteEnd, SuiteRun, TestFileChange, TestFileChangeKind, TestFileKind, TestRun, shown_baseline,
    shown_probe, shown_test_run,
};
pub use evidence::{EvidenceId, InvalidEvidenceId, StepEvidence};
pub use framing::{Framed, Framing, FramingFailure, FramingReport, Goal};
pub use handoff::{BandOutcome, Claim, Handoff, HandoffAction, HandoffDraft};
pub use mcp::TaskTools;
/// The bounds that requests and settings name.
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
    CriterionView, CursorView, EntryProgress, EntryView, LandingOutcome, LogEntryView, NoMemory, SpentView,
    StepEndWord, StepView, TaskArtifact, TaskArtifactRequest, TaskCancelRequest, TaskCreateRequest,
    TaskCreated, TaskCreation, TaskFramed, TaskLandRequest, TaskLanding, TaskListRequest, TaskLogPage,
    TaskLogRequest, TaskMemory, TaskOrchestrateRequest, TaskPage, TaskRemoveRequest, TaskRemoved,
    TaskReopenRequest, TaskReport, TaskResult, TaskResultRequest, TaskRow, TaskRunTurnRequest,
    TaskStatusRequest, TaskTurnReport, Tasks, TasksOptions, TierList, TierListRequest, TierRegisterRequest,
    TierView, UnitEnd, UnitView, VerdictView, VoteView,
};
pub use settings::{SandboxKind, SandboxSettings, TaskConfiguration, TaskSettings, TasksSection};
pub use step::{
    AgentEnding, AgentProgress, AttemptPlace, ReviewOutcome, StepAgent, StepAttempt, StepInterrupted,
    StepReview, StepRole, StepWatcher, StepWork,
};
pub use step_record::{SilentReviewer, StepRecord, UnitRecord};
pub use store::{
    FollowUp, SettledStep, StepIntent, Task, TaskData, TaskId, TaskListing, TaskLogEvent, TaskSnapshot,
    TaskStore,
};
pub use task_error::{TaskError, TaskErrorKind};
pub use task_state::{Cursor, StepEnd, TaskEvent, TaskState, TaskStatus, TaskStatusWord, WrongStatus};
