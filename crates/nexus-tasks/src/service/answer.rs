//! Answers of the calls. Each has at most about 9 KB of JSON. Longer parts are cut; an artifact or a next page has the rest.

use std::collections::BTreeMap;

use nexus_work::{WorkBudget, answer_words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{review::ReviewDecision, task_state::TaskStatusWord};

answer_words! {
    /// End of the tests of a project before any change.
    pub enum BaselineOutcome {
        /// They still run.
        Running = "running",
        /// They passed.
        Passed = "passed",
        /// One of them failed.
        Failed = "failed",
        /// They could not be started.
        DidNotStart = "did_not_start",
        /// They took too long.
        TimedOut = "timed_out",
        /// They used more than the limits allow.
        ReachedLimit = "reached_limit",
    }
}

answer_words! {
    /// End of a step or of one attempt at it.
    pub enum StepEndWord {
        /// The changes of the attempt are committed, and the next step begins.
        Advanced = "advanced",
        /// The changes of the attempt are committed, and the task is complete.
        Completed = "completed",
        /// A verdict asks for another attempt.
        Retried = "retried",
        /// An agent could not do its part.
        Blocked = "blocked",
        /// A person has to look.
        Escalated = "escalated",
    }
}

answer_words! {
    /// End of the part of one agent in an attempt.
    pub enum UnitEnd {
        /// The step is done.
        StepDone = "step_done",
        /// The task is complete.
        Complete = "complete",
        /// The agent could not do its part.
        Blocked = "blocked",
        /// The turn of the agent failed.
        Failed = "failed",
    }
}

answer_words! {
    /// Judgement of a criterion.
    pub enum CriterionState {
        /// It holds.
        Pass = "pass",
        /// The criterion does not hold, or no evidence shows that it holds.
        Fail = "fail",
        /// No review judged it yet.
        Open = "open",
    }
}

/// A task was created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCreated {
    /// Id of the task in every other call.
    pub task_id: String,
    /// `framing`.
    pub status: TaskStatusWord,
    /// The next call to make.
    pub next: String,
    /// Commit with which it begins.
    pub base: String,
    /// Result of the project's own tests before any change. Absent without a test command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineView>,
    /// Facts to know before the next call: failing tests, uncommitted files, a weak configuration.
    pub warnings: Vec<String>,
}

/// Result of a project's tests before any change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineView {
    /// `running`, `passed`, `failed`, `did_not_start`, `timed_out`, `reached_limit`.
    pub outcome: BaselineOutcome,
    /// End of their output, or the missing program.
    pub output: String,
}

/// State of framing a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFramed {
    /// True while framing runs. Then call again to join it.
    pub running: bool,
    /// Current or last activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The task as it is now: its questions, or its plan.
    pub task: TaskReport,
}

/// State of a running step, or the result of a finished one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTurnReport {
    /// The task.
    pub task_id: String,
    /// True while the step runs. Then call again to join it.
    pub running: bool,
    /// Current activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Agents that wait for the reset of a vendor's limit, and go on by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitView>,
    /// Result of the step. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepView>,
    /// The status of the task.
    pub status: TaskStatusWord,
    /// The next call to make.
    pub next: String,
}

/// Result of a step, over all its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Its first entry, counted from 0.
    pub entry: usize,
    /// End of the step: `advanced`, `completed`, `retried`, `blocked`, `escalated`.
    pub end: StepEndWord,
    /// Reason, if it did not advance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Infrastructure failure behind it, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Commit of its last attempt, if that attempt committed changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its last attempts, at most six, the oldest first.
    pub attempts: Vec<AttemptView>,
}

/// Result of one attempt at a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its number: the artifacts `step-N`, `patch-N`, `verdict-N` and `handoff-N-U` have all details.
    pub attempt: u32,
    /// End of the attempt.
    pub end: StepEndWord,
    /// True if the reviewed files are those of the step before, so that the attempt changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_nothing: bool,
    /// Answers of the agents.
    pub units: Vec<UnitView>,
    /// Union of the reviewers' verdicts. Absent if the attempt had no review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictView>,
    /// Votes of the reviewers.
    pub votes: Vec<VoteView>,
    /// Reviewers that gave no vote, with reasons.
    pub silent: Vec<String>,
    /// Answer of the reflector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflection: Option<String>,
}

/// Answer of one agent in an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitView {
    /// Its entry of the plan, counted from 0.
    pub entry: usize,
    /// The type of the agent.
    pub agent_type: String,
    /// `step_done`, `complete`, `blocked`, or `failed`.
    pub outcome: UnitEnd,
    /// Claims of the agent about its work, or the reason why it submitted nothing.
    pub claims: Vec<String>,
}

/// Verdict of reviewers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictView {
    /// `advance`, `retry`, `escalate`.
    pub decision: ReviewDecision,
    /// Degree to which the work is what was requested: 0 to 1.
    pub alignment: f64,
    /// Judgements of its criteria, at most 16, failed ones first.
    pub criteria: Vec<CriterionView>,
    /// Faults that prevent the step from advancing.
    pub blocking_concerns: Vec<String>,
    /// Advice for the next attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<String>,
}

/// Judgement of a criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionView {
    /// Its id; `outcome` stands for the outcome of the step.
    pub id: String,
    /// The condition. Empty within a verdict.
    pub text: String,
    /// `pass` or `fail`; `open` before the first review of it.
    pub judgement: CriterionState,
    /// Ids of the evidence.
    pub evidence: Vec<String>,
}

/// One vote of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoteView {
    /// The seat of the panel.
    pub seat: String,
    /// Vendor that actually ran it.
    pub vendor: String,
    /// `advance`, `retry`, `escalate`.
    pub decision: ReviewDecision,
}

/// State of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReport {
    /// The task.
    pub task_id: String,
    /// `framing`, `clarification_needed`, `active`, `complete`, `blocked`, `escalated`, `cancelled`.
    pub status: TaskStatusWord,
    /// The next call to make.
    pub next: String,
    /// True if a job runs for it now: here, or in another process.
    pub running: bool,
    /// Current activity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Agents that wait for the reset of a vendor's limit, and go on by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitView>,
    /// Its entry in the queue of the home. A server runs queued tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<QueuedView>,
    /// Beginning of its goal.
    pub goal: String,
    /// The project.
    pub project: String,
    /// Questions to answer by `task_orchestrate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(default)]
    pub questions: Vec<String>,
    /// Reason for its end, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Infrastructure failure behind the end, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The step to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<CursorView>,
    /// The plan, once it exists.
    pub plan: Vec<EntryView>,
    /// Success criteria, with the judgements of reviews.
    pub criteria: Vec<CriterionView>,
    /// Usage of its turns so far.
    pub spent: SpentView,
    /// Follow-ups of its completion that remain. A server does them in the background.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_do: Vec<String>,
    /// Facts to know.
    pub warnings: Vec<String>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Workspace of which it is a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_workspace_id: Option<String>,
    /// Workspaces that belong to it.
    pub linked_workspace_ids: Vec<String>,
}

/// A turn that waits, because every backend that could run it refuses turns until a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitView {
    /// The agent.
    pub agent: String,
    /// Time of the next attempt, in RFC 3339.
    pub until: String,
    /// Names of the backends.
    pub backends: Vec<String>,
    /// Refusals of the backends, in the vendors' words.
    pub reason: String,
}

/// The step to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorView {
    /// Its first entry, counted from 0.
    pub entry: usize,
    /// Number of the attempt, over all steps of the task.
    pub attempt: u32,
    /// Number of its attempts that a review sent back.
    pub retries: u32,
}

/// One entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryView {
    /// Its number, from 0.
    pub entry: usize,
    /// The type of its agent.
    pub agent_type: String,
    /// Phase of the agent's work.
    pub phase: String,
    /// Statement that is true after it.
    pub outcome: String,
    /// Band of which it is a unit. Units of a band run at the same time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
    /// Progress of the entry.
    pub progress: EntryProgress,
}

/// Progress of an entry of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EntryProgress {
    /// Its step advanced.
    Done,
    /// Its step is next, or running.
    Current,
    /// It is still to come.
    ToDo,
    /// The task was complete without it.
    NotNeeded,
}

/// Usage of agents' turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpentView {
    /// Turns that ended.
    pub turns: u64,
    /// US dollars, for the turns whose vendor reports a cost; `null` if none does.
    pub usd: Option<f64>,
    /// Output tokens of models.
    pub output_tokens: u64,
}

impl SpentView {
    /// Returns true if a budget is used up.
    pub(super) fn is_over(&self, budget: &WorkBudget) -> bool {
        budget.usd.zip(self.usd).is_some_and(|(usd, spent)| spent >= usd)
            || budget.output_tokens.is_some_and(|tokens| self.output_tokens >= tokens)
    }
}

/// Result of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// The task.
    pub task_id: String,
    /// Its status.
    pub status: TaskStatusWord,
    /// Reason for its end, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Success criteria, with the judgements of reviews.
    pub criteria: Vec<CriterionView>,
    /// Its commits, the oldest first. Of many commits, only the newest.
    pub commits: Vec<CommitView>,
    /// A page of the files that they change.
    pub files: Vec<String>,
    /// Number of all files that they change.
    pub files_in_all: u64,
    /// Offset of the next page of files. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Steps that bring the commits into the project.
    pub landing: String,
    /// Usage of its turns.
    pub spent: SpentView,
}

/// One commit of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitView {
    /// Its id in the task's repository.
    pub id: String,
    /// Its attempt: the artifact `patch-N` shows the commit.
    pub attempt: u32,
    /// Outcome of its step.
    pub outcome: String,
}

/// A page of a task's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskLogPage {
    /// The task.
    pub task_id: String,
    /// Events, the oldest first.
    pub events: Vec<LogEntryView>,
    /// Offset of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One event of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntryView {
    /// Its number, from 1 on.
    pub number: u64,
    /// Time, as `2026-01-31T12:00:00Z`.
    pub time: String,
    /// Kind of the event.
    pub kind: String,
    /// Details of the event.
    pub data: Value,
}

/// A page of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<TaskRow>,
    /// Tasks whose files cannot be read, with the reasons.
    pub unreadable: Vec<String>,
    /// Offset of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One task of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRow {
    /// The task.
    pub task_id: String,
    /// Its status.
    pub status: TaskStatusWord,
    /// Beginning of its goal.
    pub goal: String,
    /// Its project.
    pub project: String,
    /// Time of its creation, as `2026-01-31T12:00:00Z`.
    pub created_at: String,
    /// Time of its last change of status.
    pub updated_at: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// The queue of a home.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuePage {
    /// Its tasks, in the order in which they run.
    pub tasks: Vec<QueueRow>,
    /// Errors of tasks that cannot be read.
    pub unreadable: Vec<String>,
}

/// Entry of a task in the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedView {
    /// Tasks with a larger number run first.
    pub priority: i32,
    /// Time at which the task was queued, as `2026-01-31T12:00:00Z`.
    pub since: String,
}

/// A queued task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueRow {
    /// The task.
    pub task_id: String,
    /// Tasks with a larger number run first.
    pub priority: i32,
    /// Time at which the task was queued, as `2026-01-31T12:00:00Z`.
    pub since: String,
    /// Its status. A task with the status `clarification_needed` runs once its questions are answered.
    pub status: TaskStatusWord,
    /// Beginning of its goal.
    pub goal: String,
    /// Its project.
    pub project: String,
}

/// A page of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskArtifact {
    /// The task.
    pub task_id: String,
    /// Name of the artifact.
    pub artifact: String,
    /// The page. Bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// Length of the whole artifact, in bytes.
    pub bytes: u64,
    /// Offset of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// Result of a landing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskLanding {
    /// The task.
    pub task_id: String,
    /// Outcome in a word.
    pub outcome: LandingOutcome,
    /// Branch that was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Commit to which the branch points now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Reason why the branch was not moved, with advice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// Artifact to apply by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

/// Result of a landing, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LandingOutcome {
    /// The person's branch was moved, and the files of its checkout were updated.
    Landed,
    /// Neither branch nor files of the person were changed. The answer names a patch to apply.
    Patch,
    /// The task has no commits.
    Nothing,
}

/// A task was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRemoved {
    /// The task.
    pub task_id: String,
    /// The project of the task.
    pub project: String,
}

/// A page of the tiers at which agents work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierList {
    /// The tiers: the built-in ones, then the registered ones.
    pub tiers: Vec<TierView>,
    /// Offset of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// The built-in tier that it is, or whose tools it has.
    pub like: String,
    /// True for a built-in tier.
    pub is_built_in: bool,
}

/// A page of the types of agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The types: the built-in ones, then the registered ones.
    pub agents: Vec<AgentView>,
    /// Offset of the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One type of agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// Tier at which it works.
    pub tier: String,
    /// Phase of its work.
    pub phase: String,
    /// Purpose.
    pub description: String,
    /// Topics that it knows.
    pub topics: Vec<String>,
    /// Its tools.
    pub tools: Vec<String>,
    /// True if it has instructions of its own in addition to those of its phase.
    pub has_prompt: bool,
    /// True for a built-in type.
    pub is_built_in: bool,
}
