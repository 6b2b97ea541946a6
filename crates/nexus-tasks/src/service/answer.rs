//! What each call answers. Each has at most about 9 KB of JSON: what is longer is cut, with an artifact or a next page to read on.

use std::collections::BTreeMap;

use nexus_work::{WorkBudget, answer_words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{review::ReviewDecision, task_state::TaskStatusWord};

answer_words! {
    /// End of the tests of a project before anything was changed.
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
        /// They used more than they may.
        ReachedLimit = "reached_limit",
    }
}

answer_words! {
    /// End of a step or of one attempt at it.
    pub enum StepEndWord {
        /// It is committed, and the next step begins.
        Advanced = "advanced",
        /// It is committed, and the task is complete.
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
        /// It does not hold, or could not be shown to.
        Fail = "fail",
        /// No review judged it yet.
        Open = "open",
    }
}

/// A task was created.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskCreated {
    /// Names it in every other call.
    pub task_id: String,
    /// `framing`.
    pub status: TaskStatusWord,
    /// What to call next.
    pub next: String,
    /// The commit that it begins with.
    pub base: String,
    /// How the project's own tests ended before anything was changed. Absent without a test command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<BaselineView>,
    /// What you should know before you go on: red tests, files that are not committed, a weak configuration.
    pub warnings: Vec<String>,
}

/// How the tests of a project ended before anything was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineView {
    /// `running`, `passed`, `failed`, `did_not_start`, `timed_out`, `reached_limit`.
    pub outcome: BaselineOutcome,
    /// The end of what they printed, or what was missing.
    pub output: String,
}

/// Where framing a task is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskFramed {
    /// Whether it still runs. Then call again: that joins it.
    pub running: bool,
    /// What happens just now, or what happened last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The task as it is now: its questions, or its plan.
    pub task: TaskReport,
}

/// Where a step is, or how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTurnReport {
    /// The task.
    pub task_id: String,
    /// Whether the step still runs. Then call again: that joins it.
    pub running: bool,
    /// What happens just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// How the step ended. Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<StepView>,
    /// The status of the task.
    pub status: TaskStatusWord,
    /// What to call next.
    pub next: String,
}

/// How a step ended, over all of its attempts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepView {
    /// Its first entry, counted from 0.
    pub entry: usize,
    /// How it ended: `advanced`, `completed`, `retried`, `blocked`, `escalated`.
    pub end: StepEndWord,
    /// Why, where it did not advance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failure of the infrastructure behind it, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The task's last commit after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Its attempts, the oldest first.
    pub attempts: Vec<AttemptView>,
}

/// What one attempt at a step came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AttemptView {
    /// Its number: the artifacts `step-N`, `patch-N`, `verdict-N` and `handoff-N-U` have all of it.
    pub attempt: u32,
    /// How it ended.
    pub end: StepEndWord,
    /// Whether what was reviewed has the files of the step before, so that it changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub changes_nothing: bool,
    /// What the agents handed in.
    pub units: Vec<UnitView>,
    /// What the reviewers found. Absent if it did not come to a review.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictView>,
    /// Who voted how.
    pub votes: Vec<VoteView>,
    /// Reviewers that gave no vote, and why.
    pub silent: Vec<String>,
    /// What the reflector answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reflection: Option<String>,
}

/// What one agent of an attempt handed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitView {
    /// Its entry of the plan, counted from 0.
    pub entry: usize,
    /// The type of the agent.
    pub agent_type: String,
    /// `step_done`, `complete`, `blocked`, or `failed`.
    pub outcome: UnitEnd,
    /// What it says it did, or why nothing came of it.
    pub claims: Vec<String>,
}

/// What reviewers found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerdictView {
    /// `advance`, `retry`, `escalate`.
    pub decision: ReviewDecision,
    /// How far the work is what was asked for: 0 to 1.
    pub alignment: f64,
    /// What was judged of each criterion.
    pub criteria: Vec<CriterionView>,
    /// What keeps the step from advancing.
    pub blocking_concerns: Vec<String>,
    /// What to do otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_hint: Option<String>,
}

/// Whether a criterion holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CriterionView {
    /// Its id; `outcome` is what the step is to reach.
    pub id: String,
    /// What has to hold.
    pub text: String,
    /// `pass` or `fail`; `open` where no review judged it yet.
    pub judgement: CriterionState,
    /// Ids of what shows it.
    pub evidence: Vec<String>,
}

/// One vote of a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoteView {
    /// The seat of the panel.
    pub seat: String,
    /// The vendor that really ran it.
    pub vendor: String,
    /// `advance`, `retry`, `escalate`.
    pub decision: ReviewDecision,
}

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReport {
    /// The task.
    pub task_id: String,
    /// `framing`, `clarification_needed`, `active`, `complete`, `blocked`, `escalated`, `cancelled`.
    pub status: TaskStatusWord,
    /// What to call next.
    pub next: String,
    /// Whether something runs for it just now: here, or in another process.
    pub running: bool,
    /// What happens just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The beginning of its goal.
    pub goal: String,
    /// The project.
    pub project: String,
    /// Questions to be answered by `task_orchestrate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[serde(default)]
    pub questions: Vec<String>,
    /// Why it ended, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failure of the infrastructure behind that, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The step that is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<CursorView>,
    /// The plan, once there is one.
    pub plan: Vec<EntryView>,
    /// When it is solved, and what reviews found of that.
    pub criteria: Vec<CriterionView>,
    /// What its turns used so far.
    pub spent: SpentView,
    /// What follows its completion and is still to be done: a server does it beside the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to_do: Vec<String>,
    /// What you should know.
    pub warnings: Vec<String>,
    /// The labels that it was given.
    pub labels: BTreeMap<String, String>,
    /// The workspace that it is a part of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_workspace_id: Option<String>,
    /// Workspaces that belong to it.
    pub linked_workspace_ids: Vec<String>,
}

/// The step that is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CursorView {
    /// Its first entry, counted from 0.
    pub entry: usize,
    /// Which attempt at a step of the task it is.
    pub attempt: u32,
    /// How many of its attempts a review sent back.
    pub retries: u32,
}

/// One entry of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EntryView {
    /// Its number, from 0.
    pub entry: usize,
    /// The type of its agent.
    pub agent_type: String,
    /// What the agent does.
    pub phase: String,
    /// What is to be true after it.
    pub outcome: String,
    /// The band that it is a unit of: they are done at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
    /// How far it is.
    pub progress: EntryProgress,
}

/// How far an entry of a plan is.
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

/// What turns of agents used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpentView {
    /// Turns that ended.
    pub turns: u64,
    /// US dollars, as far as the vendors say what a turn costs; `null` if none did.
    pub usd: Option<f64>,
    /// Tokens that models wrote.
    pub output_tokens: u64,
}

impl SpentView {
    /// Whether nothing is left of a budget.
    pub(super) fn is_over(&self, budget: &WorkBudget) -> bool {
        budget.usd.zip(self.usd).is_some_and(|(usd, spent)| spent >= usd)
            || budget.output_tokens.is_some_and(|tokens| self.output_tokens >= tokens)
    }
}

/// What a task has come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// The task.
    pub task_id: String,
    /// Its status.
    pub status: TaskStatusWord,
    /// Why it ended, if it did not complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it is solved, and what reviews found of that.
    pub criteria: Vec<CriterionView>,
    /// Its commits, the oldest first.
    pub commits: Vec<CommitView>,
    /// The files that they change, a page of them.
    pub files: Vec<String>,
    /// How many files they change in all.
    pub files_in_all: u64,
    /// Where the next page of files begins. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// How it gets into the project.
    pub landing: String,
    /// What its turns used.
    pub spent: SpentView,
}

/// One commit of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommitView {
    /// Its id in the task's repository.
    pub id: String,
    /// The attempt that it is of: the artifact `patch-N` shows it.
    pub attempt: u32,
    /// What was to be true after its step.
    pub outcome: String,
}

/// A page of what happened in a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskLogPage {
    /// The task.
    pub task_id: String,
    /// What happened, the oldest first.
    pub events: Vec<LogEntryView>,
    /// Where the next page begins. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One thing that happened in a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogEntryView {
    /// Its number, from 1 on.
    pub number: u64,
    /// When, as `2026-01-31T12:00:00Z`.
    pub time: String,
    /// What kind of thing.
    pub kind: String,
    /// What else is known of it.
    pub data: Value,
}

/// A page of tasks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskPage {
    /// The tasks, the newest first.
    pub tasks: Vec<TaskRow>,
    /// Tasks whose files cannot be read, and why.
    pub unreadable: Vec<String>,
    /// Where the next page begins. Absent on the last page.
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
    /// The beginning of its goal.
    pub goal: String,
    /// Its project.
    pub project: String,
    /// When it was created, as `2026-01-31T12:00:00Z`.
    pub created_at: String,
    /// When its status last changed.
    pub updated_at: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A page of something that a task made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskArtifact {
    /// The task.
    pub task_id: String,
    /// What it is.
    pub artifact: String,
    /// The page. Bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
    /// How long all of it is, in bytes.
    pub bytes: u64,
    /// Where the next page begins. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// What became of a landing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskLanding {
    /// The task.
    pub task_id: String,
    /// What became of it.
    pub outcome: LandingOutcome,
    /// The branch that was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Where it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Why the branch was not moved, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// The artifact that is to be applied instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

/// What became of a landing, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LandingOutcome {
    /// The person's branch was moved, and the files of its checkout with it.
    Landed,
    /// Nothing of the person's was changed; there is a patch to be applied.
    Patch,
    /// The task has committed nothing.
    Nothing,
}

/// A task was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskRemoved {
    /// The task.
    pub task_id: String,
    /// The project that it worked on.
    pub project: String,
}

/// The tiers at which agents work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierList {
    /// The tiers: those that are built in, then the registered ones.
    pub tiers: Vec<TierView>,
    /// Where the next page begins. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TierView {
    /// Its name.
    pub name: String,
    /// The built-in tier that it is, or is like.
    pub like: String,
    /// Whether it is built in.
    pub is_built_in: bool,
}

/// The types of agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    /// The types: those that are built in, then the registered ones.
    pub agents: Vec<AgentView>,
    /// Where the next page begins. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// One type of agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its name.
    pub name: String,
    /// The tier at which it works.
    pub tier: String,
    /// What it does.
    pub phase: String,
    /// What it is good for.
    pub description: String,
    /// What it knows about.
    pub topics: Vec<String>,
    /// The tools that it has.
    pub tools: Vec<String>,
    /// Whether it is told something beside what its phase says.
    pub has_prompt: bool,
    /// Whether it is built in.
    pub is_built_in: bool,
}
