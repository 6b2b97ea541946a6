//! What a task's `status.json` holds beside its state.

use std::{fmt, path::PathBuf};

use nexus_trees::{CommitId, CommitIntent};
use nexus_work::{AgentTypes, WorkData};
use serde::{Deserialize, Serialize};

use crate::{
    checks::Baseline,
    problem_brief::BriefDraft,
    settings::TaskSettings,
    task_state::{StepEnd, TaskState, TaskStatus},
};

/// What a task's `status.json` holds beside its [`TaskState`]: all that is needed to go on with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskData {
    /// The version of this layout: [`TaskData::VERSION`].
    pub version: u32,
    /// The project: an absolute path.
    pub project: PathBuf,
    /// What is to be reached.
    pub goal: String,
    /// What the caller knows about it.
    pub context: Option<String>,
    /// Whether it began with what was not committed.
    pub include_uncommitted: bool,
    /// What bounds it beside its brief.
    pub settings: TaskSettings,
    /// Questions that were asked, each with the caller's answer.
    pub answers: Vec<(String, String)>,
    /// What holds of the project's files, for the orchestrator.
    pub remarks: Vec<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
    /// How the project's tests ended before anything was changed. `None` if they were not run yet, or there is no command.
    pub baseline: Option<Baseline>,
    /// The brief, as it was accepted and amended.
    pub brief: Option<BriefDraft>,
    /// The types of agents with which the brief was accepted, as far as its plan names them.
    pub types: AgentTypes,
    /// The last commit; the base if there is none. `None` until the task has its repository.
    pub head: Option<CommitId>,
    /// What was committed, the oldest first.
    pub commits: Vec<SettledStep>,
    /// The files with which the next attempt begins, where they are not those of the last commit: what a review sent back.
    pub work: Option<CommitId>,
    /// What to do otherwise in the next attempt, as a verdict or a reflector said.
    pub hints: Vec<String>,
    /// What the caller said with each reopening.
    pub notes: Vec<String>,
    /// The attempt that some process began last. If it is the one that is to be done, it was cut off, or runs.
    pub begun: u32,
    /// The last attempt that was cut off and put back. If it is the one that is to be done, nothing of it is left.
    pub interrupted: u32,
    /// The last attempt after which the task left its step.
    pub settled: u32,
    /// The last such attempt whose outcome a caller was given.
    pub delivered: u32,
    /// Whether the caller wants it cancelled: whoever runs a step of it stops.
    pub stop: bool,
    /// A settling that was decided, and is to be carried out.
    pub intent: Option<StepIntent>,
    /// What follows its completion and was not done yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<FollowUp>,
}

/// What is done once after a task was completed, beside the calls on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUp {
    /// The memory is told what it came to.
    Remember,
    /// The map of the project is drawn anew, if the configuration binds a cartographer.
    DrawMap,
}

/// A step that was committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettledStep {
    /// Its first entry, counted from 0.
    pub entry: usize,
    /// The attempt that advanced.
    pub attempt: u32,
    /// The commit.
    pub commit: CommitId,
}

/// How an attempt is settled that is to be committed: written down before it is carried out, so that after a crash the same is
/// done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepIntent {
    /// The attempt.
    pub attempt: u32,
    /// How it ended.
    pub end: StepEnd,
    /// The commit that is to be made.
    pub commit: CommitIntent,
}

impl TaskData {
    /// Returns whether something was begun in this state that is not settled: a process does it now, or was cut off.
    pub(crate) fn was_begun(&self, state: &TaskState) -> bool {
        let is_at_it = matches!(state.status, TaskStatus::Active { cursor } if self.begun == cursor.attempt);
        self.intent.is_some() || is_at_it || self.stop
    }
}

impl FollowUp {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 2] = [Self::Remember, Self::DrawMap];
}

impl fmt::Display for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remember => "the memory is to be told what it came to",
            Self::DrawMap => "the map of the project is to be drawn",
        })
    }
}

impl TaskData {
    /// The version of this layout.
    pub const VERSION: u32 = 1;
    /// Most notes that are kept; the oldest are dropped.
    pub const NOTES: usize = 8;

    /// A task for `goal` in `project`, of which nothing is known yet.
    pub fn new(goal: impl Into<String>, project: impl Into<PathBuf>, settings: TaskSettings) -> Self {
        Self {
            version: Self::VERSION,
            project: project.into(),
            goal: goal.into(),
            context: None,
            include_uncommitted: false,
            settings,
            answers: Vec::new(),
            remarks: Vec::new(),
            warnings: Vec::new(),
            baseline: None,
            brief: None,
            types: AgentTypes::built_in(),
            head: None,
            commits: Vec::new(),
            work: None,
            hints: Vec::new(),
            notes: Vec::new(),
            begun: 0,
            interrupted: 0,
            settled: 0,
            delivered: 0,
            stop: false,
            intent: None,
            follow_ups: Vec::new(),
        }
    }
}

impl WorkData<TaskState> for TaskData {
    const VERSION: u32 = Self::VERSION;

    fn fault(&self, state: &TaskState) -> Option<String> {
        if self.version != Self::VERSION {
            return Some(format!("is of version {}, and this Nexus knows {}", self.version, Self::VERSION));
        }
        if !self.project.is_absolute() {
            return Some("`project` is no absolute path".to_owned());
        }
        let is_active = matches!(state.status, TaskStatus::Active { .. });
        if is_active && (self.brief.is_none() || self.head.is_none()) {
            return Some("the task is active and has no brief, or no repository".to_owned());
        }
        if let TaskStatus::Active { cursor } = &state.status
            && cursor.attempt != state.attempts
        {
            return Some(format!("the attempt {} is not the last of {}", cursor.attempt, state.attempts));
        }
        let attempts = [self.begun, self.interrupted, self.settled, self.delivered];
        if attempts.iter().any(|attempt| *attempt > state.attempts) {
            return Some(format!("names an attempt after the last one, {}", state.attempts));
        }
        match (&self.intent, &state.status) {
            (None, _) => None,
            (Some(intent), TaskStatus::Active { cursor }) if intent.attempt == cursor.attempt => {
                let parents = &intent.commit.parents;
                let follows = parents.len() == 1 && parents.first() == self.head.as_ref();
                (!follows).then(|| "`intent` does not follow the last commit".to_owned())
            }
            (Some(_), _) => Some("`intent` is of an attempt that is not to be done".to_owned()),
        }
    }
}
