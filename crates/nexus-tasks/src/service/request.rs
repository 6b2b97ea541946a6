//! Requests of the calls. Models read the documentation of a field as its description.

use std::{collections::BTreeMap, path::PathBuf};

use nexus_work::{AgentType, WorkBudget, agent::Surface};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Creates a task from a goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCreateRequest {
    /// The goal, and how to see that it is reached. At most 16 KiB.
    pub goal: String,
    /// Absolute path of the project: the top of a git repository, or a folder outside of any repository.
    pub project: PathBuf,
    /// Knowledge of yours that the agents cannot find out by themselves: findings, decisions, places. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Includes uncommitted changes of the project. By default a task begins with the last commit.
    #[serde(default)]
    pub include_uncommitted: bool,
    /// Allows reading more than 50,000 files or 200 MiB outside of git; by default such a project is rejected. Ask the person before you
    /// set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_large: bool,
    /// The program that runs the tests, and its arguments: `["cargo", "test", "--offline"]`. No shell interprets it. By default that of
    /// the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_command: Option<Vec<String>>,
    /// Paths in the project that are not in git and that tests need. Tests see them read-only: `node_modules`, `.venv`, `vendor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<String>>,
    /// Programs, each with its arguments, that prepare a tree once before its first test: `[["npm", "run", "build"]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Vec<String>>>,
    /// Maximum number of repetitions of a step that reviews may request before the task ends as escalated. By default as configured, else 2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_review_retries: Option<u32>,
    /// Number of vendors whose votes a step needs to advance. By default as configured. Set 1 to accept the vote of a single vendor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_vendors: Option<usize>,
    /// Longest time, in seconds, that a turn waits for the reset of a vendor's limit; 0 does not wait. By default as configured, else a
    /// day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_seconds: Option<u64>,
    /// Budget of all turns of the task together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
    /// Workspace of which this task is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_workspace_id: Option<String>,
    /// Workspaces that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_workspace_ids: Vec<String>,
    /// Names and values for finding the task again. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Longest wait for the first run of the project's tests, in seconds: 45 by default, at most 50. The tests continue to run afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Frames a task: from its goal to a brief with criteria, scope and a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskOrchestrateRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Your answers to the questions, in their order. Only in status `clarification_needed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<String>>,
    /// Longest wait, in seconds: 45 by default, at most 50. If framing still runs then, call again to join it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Does the next step of a task's plan: the work, its review, and every retry that the review asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRunTurnRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Entry of the plan that you mean, counted from 0. If its step is already settled, the call returns its result and starts nothing. By
    /// default the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// Longest wait, in seconds: 45 by default, at most 50. If the step still runs then, call again to join it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Queues a task for the server of the queue, which runs it to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskQueueRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Priority, from -100 to 100. Tasks with a larger number run first. By default 0, or the present one of a queued task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// Reads the state of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskStatusRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Longest wait while a job runs, in seconds: 45 by default, at most 50; 0 does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Reads the result of a task. Changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskResultRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Offset of the page of changed files: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Reads the log of a task, the oldest event first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskLogRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Number of events to skip: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Lists tasks, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskListRequest {
    /// Only tasks in this status: `framing`, `clarification_needed`, `active`, `complete`, `blocked`, `escalated`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only tasks of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Only tasks with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Number of tasks to skip: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Reads an artifact of a task, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskArtifactRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Artifact to read: `brief`; `patch` (all commits); `context-map` (of the project); for attempt N and unit U `step-N`, `patch-N`,
    /// `verdict-N`, `handoff-N-U`; `probe-N` for the probe with number N; `turn-ID` with an id from `task_log`.
    pub artifact: String,
    /// Offset of the page, in bytes: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Ends a task. A running step is stopped, and its changes are undone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCancelRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
}

/// Resumes a task that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskReopenRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// Your message to the agents: recent changes, advice. At most 2 KiB.
    pub note: String,
    /// Entry of the plan to resume with, counted from 0. By default the entry with which the task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_entry: Option<usize>,
    /// New budget of all turns of the task together, including those so far. Each given bound replaces the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
    /// Number of vendors whose votes a step needs from now on; 1 accepts a single vendor. By default the number of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_vendors: Option<usize>,
    /// Longest time, in seconds, that a turn waits from now on for the reset of a vendor's limit; 0 does not wait. By default that of the
    /// task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_wait_seconds: Option<u64>,
}

/// Removes a task that ended, with all its data. Commits that were not landed are lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRemoveRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
}

/// Moves the person's branch to the commits of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskLandRequest {
    /// Id of the task, from `task_create`.
    pub task_id: String,
    /// If the branch has moved on: merge it with the commits, run the task's tests on the merge, and move the branch to it if they
    /// pass.
    #[serde(default)]
    pub merge: bool,
    /// If the branch has moved on: replay the commits on it with their authors and messages, run the task's tests on the last one, and
    /// move the branch to it if they pass.
    #[serde(default)]
    pub rebase: bool,
    /// Create a branch of this name for the unchanged commits, and leave the branch of the task's base alone.
    #[serde(default)]
    pub branch: Option<String>,
}

impl TaskLandRequest {
    /// Lands a task on the branch that it began on.
    pub fn new(task_id: impl Into<String>) -> Self {
        Self { task_id: task_id.into(), ..Self::default() }
    }
}

/// Registers a tier: a level at which agents work, with fewer tools than a built-in tier.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierRegisterRequest {
    /// Its name: a letter, and up to 63 letters, digits, `-` and `_`.
    pub name: String,
    /// Built-in tier on which it is based: `operations` (reads) or `execution` (changes files).
    pub like: String,
    /// Tools of that tier that its agents keep, as names or patterns: `["read_*", "search_files"]`. By default all.
    #[serde(default, skip_serializing_if = "Surface::is_all")]
    #[schemars(with = "Option<Vec<String>>")]
    pub surface: Surface,
}

/// Lists the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierListRequest {
    /// Number of tiers to skip: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Registers a type of agent that plans may name. Replaces a registered type of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRegisterRequest {
    /// Its name: a letter, and up to 63 letters, digits, `-` and `_`.
    pub name: String,
    /// Tier at which it works: `operations`, `execution`, or a registered tier.
    pub tier: String,
    /// Phase of its work: `implement`, `review`, or a phase of its own.
    pub phase: String,
    /// Purpose, for agents that write plans. At most 2,048 bytes.
    pub description: String,
    /// Topics that it knows. At most 32, of 64 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// Instructions in addition to its task. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Tools of its tier that it keeps, as names or patterns. By default all.
    #[serde(default, skip_serializing_if = "Surface::is_all")]
    #[schemars(with = "Option<Vec<String>>")]
    pub surface: Surface,
}

impl From<AgentRegisterRequest> for AgentType {
    fn from(request: AgentRegisterRequest) -> Self {
        let AgentRegisterRequest { name, tier, phase, description, topics, prompt, surface } = request;
        let mut agent = Self::new(name, tier, phase).with_description(description).with_surface(surface);
        agent.topics.extend(topics);
        agent.prompt = prompt;
        agent
    }
}

impl From<AgentType> for AgentRegisterRequest {
    fn from(agent: AgentType) -> Self {
        let AgentType { name, tier, phase, description, topics, prompt, surface, .. } = agent;
        Self { name, tier, phase, description, topics: topics.into_iter().collect(), prompt, surface }
    }
}

/// Lists the types of agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentListRequest {
    /// Number of types to skip: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Removes a registered type of agent. Tasks whose plan names the type keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRemoveRequest {
    /// Its name.
    pub name: String,
}
