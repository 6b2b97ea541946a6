//! What each call takes. The documentation of a field is what a model reads of it.

use std::{collections::BTreeMap, path::PathBuf};

use nexus_work::{AgentType, WorkBudget, agent::Surface};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Creates a task from a goal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCreateRequest {
    /// What is to be reached, and how anybody can see that it is. At most 16 KiB.
    pub goal: String,
    /// The absolute path of the project: the top of a git repository, or a folder that is in none.
    pub project: PathBuf,
    /// What you know about it that the agents cannot find out by themselves: findings, decisions, places. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Takes along what is not committed in the project. By default a task begins with the last commit.
    #[serde(default)]
    pub include_uncommitted: bool,
    /// Allows to read more than 50,000 files or 200 MiB that are not in git; by default such a project is refused. Ask the person before you
    /// set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_large: bool,
    /// The program that runs the tests, and its arguments: `["cargo", "test", "--offline"]`. No shell reads it. By default that of
    /// the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test_command: Option<Vec<String>>,
    /// Paths in the project that are not in git and that tests need, shown to them read-only: `node_modules`, `.venv`, `vendor`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Vec<String>>,
    /// Programs, each with its arguments, that prepare a tree once before its first test: `[["npm", "run", "build"]]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<Vec<String>>>,
    /// How often a step is done anew because a review asks for it, before you are asked. 2 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_review_retries: Option<u32>,
    /// Of how many vendors a step needs a vote to advance. By default as the configuration says; 1 says on purpose that one
    /// vendor will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_vendors: Option<usize>,
    /// What all turns of the task together may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
    /// The workspace that this task is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_workspace_id: Option<String>,
    /// Workspaces that belong to it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked_workspace_ids: Vec<String>,
    /// Names and values by which you find it again. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How long to wait for the run of the tests on the project as it is, in seconds: 45 by default, 50 at most. They go on running
    /// afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Frames a task: from its goal to a brief with criteria, scope and a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskOrchestrateRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// Your answers to the questions that were asked, in their order. Only when the status is `clarification_needed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Vec<String>>,
    /// How long to wait, in seconds: 45 by default, 50 at most. If it still runs then, call again: that joins it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Does the next step of a task's plan: the work, its review, and every retry that the review asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRunTurnRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// The entry of the plan that you mean, counted from 0. If its step is settled already, you get how that ended, and nothing
    /// is started. By default the one that is next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
    /// How long to wait, in seconds: 45 by default, 50 at most. If it still runs then, call again: that joins it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Asks where a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskStatusRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// How long to wait while something runs, in seconds: 45 by default, 50 at most, 0 not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Asks what a task has come to. Changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskResultRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// Where the page of changed files begins: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Reads what happened in a task, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskLogRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// How many events to pass over: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Lists tasks, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskListRequest {
    /// Only those in this status: `framing`, `clarification_needed`, `active`, `complete`, `blocked`, `escalated`, `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Only those of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<PathBuf>,
    /// Only those with all of these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// How many to pass over: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Reads something that a task made, in pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskArtifactRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// What to read: `brief`; `patch` (all that was committed); `context-map` (of the project); and, N being an attempt and U a unit,
    /// `step-N`, `patch-N`, `verdict-N`, `handoff-N-U`; `probe-N`, N being its number; `turn-ID`, as `task_log` names it.
    pub artifact: String,
    /// Where the page begins, in bytes: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Ends a task; a running step is stopped and put back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskCancelRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
}

/// Goes on with a task that ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskReopenRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
    /// What the agents are to know from you: what changed since, what to do otherwise. At most 2 KiB.
    pub note: String,
    /// The entry of the plan to go on with, counted from 0. By default the one that ended it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_entry: Option<usize>,
    /// What all turns of the task together may use from now on, with what they used so far: a bound that is named takes the place of
    /// the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<WorkBudget>,
}

/// Removes a task that ended, with all that it made and did not land.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskRemoveRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
}

/// Moves the person's branch to what a task committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskLandRequest {
    /// The task, as `task_create` named it.
    pub task_id: String,
}

/// Registers a tier: a level at which agents work, with fewer tools than the built-in one that it is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierRegisterRequest {
    /// Its name: a letter, and up to 63 letters, digits, `-` and `_`.
    pub name: String,
    /// The built-in tier that it is like: `operations` (reads) or `execution` (changes files).
    pub like: String,
    /// The tools of that tier that its agents keep, as names or patterns: `["read_*", "search_files"]`. By default all.
    #[serde(default, skip_serializing_if = "Surface::is_all")]
    #[schemars(with = "Option<Vec<String>>")]
    pub surface: Surface,
}

/// Lists the tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TierListRequest {
    /// How many to pass over: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Registers a type of agent that plans may name. One of this name that was registered before is replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRegisterRequest {
    /// Its name: a letter, and up to 63 letters, digits, `-` and `_`.
    pub name: String,
    /// The tier at which it works: `operations`, `execution`, or one that was registered.
    pub tier: String,
    /// What it does: `implement`, `review`, or a phase of its own.
    pub phase: String,
    /// What it is good for, for whoever makes a plan. At most 2,048 bytes.
    pub description: String,
    /// What it knows about. At most 32, of 64 bytes each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topics: Vec<String>,
    /// What it is told beside its task. At most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tools of its tier that it keeps, as names or patterns. By default all.
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
    /// How many to pass over: `next_offset` of the page before.
    #[serde(default)]
    pub offset: u64,
}

/// Removes a registered type of agent. Tasks whose plan names it keep it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRemoveRequest {
    /// Its name.
    pub name: String,
}
