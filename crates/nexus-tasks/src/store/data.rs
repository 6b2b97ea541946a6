//! Data of a task in its `status.json`, beside its state.

use std::{fmt, path::PathBuf, time::SystemTime};

use nexus_files::rfc3339;
use nexus_trees::{CommitId, CommitIntent};
use nexus_work::{AgentTypes, WorkData};
use serde::{Deserialize, Serialize};

use crate::{
    checks::Baseline,
    problem_brief::BriefDraft,
    settings::TaskSettings,
    task_state::{StepEnd, TaskState, TaskStatus},
};

/// Data of a task in its `status.json`, beside its [`TaskState`]: everything that is needed to resume the task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskData {
    /// Version of this layout: 1, or [`TaskData::VERSION`] while the task is queued.
    pub version: u32,
    /// The project: an absolute path.
    pub project: PathBuf,
    /// The goal.
    pub goal: String,
    /// Knowledge of the caller.
    pub context: Option<String>,
    /// True if it began with the uncommitted changes of the project.
    pub include_uncommitted: bool,
    /// Bounds beside its brief.
    pub settings: TaskSettings,
    /// Questions to the caller, each with the answer.
    pub answers: Vec<(String, String)>,
    /// Facts about the project's files, for the orchestrator.
    pub remarks: Vec<String>,
    /// Facts that the caller should know.
    pub warnings: Vec<String>,
    /// Result of the project's tests before any change. `None` before their first run, or without a test command.
    pub baseline: Option<Baseline>,
    /// The brief, as it was accepted and amended.
    pub brief: Option<BriefDraft>,
    /// Types of agents that the plan names, as they were when the brief was accepted.
    pub types: AgentTypes,
    /// Last commit; the base before the first commit. `None` until the task has its repository.
    pub head: Option<CommitId>,
    /// Commits, the oldest first.
    pub commits: Vec<SettledStep>,
    /// Files at the start of the next attempt, if they differ from the last commit: work that a review sent back.
    pub work: Option<CommitId>,
    /// Advice for the next attempt, from a verdict or a reflector.
    pub hints: Vec<String>,
    /// Notes of the caller, one for each reopening.
    pub notes: Vec<String>,
    /// Attempt that a process started last. If it is the current one, it runs or was interrupted.
    pub begun: u32,
    /// Last attempt that was interrupted and undone. If it is the current attempt, all of its changes are gone.
    pub interrupted: u32,
    /// Last attempt after which the task left its step.
    pub settled: u32,
    /// Last attempt that left its step and whose result a caller has received.
    pub delivered: u32,
    /// True if the caller wants the task cancelled. A process that runs a step of the task then stops.
    pub stop: bool,
    /// Settlement that was decided but not yet carried out.
    pub intent: Option<StepIntent>,
    /// Follow-ups of its completion that remain to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub follow_ups: Vec<FollowUp>,
    /// Entry in the queue of the home. [`set_queued`](Self::set_queued) changes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<QueueEntry>,
}

/// Entry of a task in the queue of its home. The server of the queue runs the task step by step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueEntry {
    /// Tasks with a larger number run first.
    pub priority: i32,
    /// Time at which the task was queued.
    #[serde(with = "rfc3339::as_millis")]
    pub since: SystemTime,
}

/// Work that is done once after a task was completed, in the background of the calls on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FollowUp {
    /// The memory stores the result.
    Remember,
    /// A cartographer draws a new map of the project, if the configuration binds one.
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

/// Decided settlement of an attempt with a commit. It is written before it is carried out, so that after a crash the same settlement is
/// repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepIntent {
    /// The attempt.
    pub attempt: u32,
    /// End of the attempt.
    pub end: StepEnd,
    /// The commit to make.
    pub commit: CommitIntent,
}

impl TaskData {
    /// Returns true if the status has unsettled work in this state: a process does it now, or was interrupted.
    pub(crate) fn was_begun(&self, state: &TaskState) -> bool {
        let is_at_it = matches!(state.status, TaskStatus::Active { cursor } if self.begun == cursor.attempt);
        self.intent.is_some() || is_at_it || self.stop
    }
}

impl FollowUp {
    /// All follow-ups, in the order in which they are done.
    pub const ALL: [Self; 2] = [Self::Remember, Self::DrawMap];
}

impl fmt::Display for FollowUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Remember => "the result must be stored in the memory",
            Self::DrawMap => "the map of the project must be written",
        })
    }
}

impl TaskData {
    /// The newest version of this layout.
    pub const VERSION: u32 = 2;
    /// Version of a task that is not queued. Programs that do not know the queue read it.
    const UNQUEUED_VERSION: u32 = 1;
    /// Maximum number of notes to retain; the oldest are dropped.
    pub const NOTES: usize = 8;

    /// Creates the data of a new task for `goal` in `project`.
    pub fn new(goal: impl Into<String>, project: impl Into<PathBuf>, settings: TaskSettings) -> Self {
        Self {
            version: Self::UNQUEUED_VERSION,
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
            queued: None,
        }
    }

    /// Queues the task, or takes it off the queue.
    pub fn set_queued(&mut self, entry: Option<QueueEntry>) {
        // A program that does not know the queue must refuse a queued task instead of dropping its entry.
        self.version = if entry.is_some() { Self::VERSION } else { Self::UNQUEUED_VERSION };
        self.queued = entry;
    }
}

impl WorkData<TaskState> for TaskData {
    const VERSION: u32 = Self::VERSION;

    fn fault(&self, state: &TaskState) -> Option<String> {
        if !(Self::UNQUEUED_VERSION..=Self::VERSION).contains(&self.version) {
            return Some(format!(
                "has version {}, but this version of Nexus supports {} to {}",
                self.version,
                Self::UNQUEUED_VERSION,
                Self::VERSION
            ));
        }
        if !self.project.is_absolute() {
            return Some("`project` is not an absolute path".to_owned());
        }
        let is_active = matches!(state.status, TaskStatus::Active { .. });
        if is_active && (self.brief.is_none() || self.head.is_none()) {
            return Some("the task is active, but has no brief or no repository".to_owned());
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
                // A commit that does not follow the head could not move the ref by compare-and-set.
                let follows = parents.len() == 1 && parents.first() == self.head.as_ref();
                (!follows).then(|| "`intent` does not follow the last commit".to_owned())
            }
            (Some(_), _) => Some("`intent` belongs to an attempt that is not the next".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_queued_task_has_the_version_of_the_queue() {
        let mut data = TaskData::new("goal", "/project", TaskSettings::default());
        let unqueued = serde_json::to_value(&data).unwrap();
        assert!(unqueued["version"] == 1 && unqueued.get("queued").is_none(), "{unqueued}");
        data.set_queued(Some(QueueEntry { priority: 3, since: SystemTime::UNIX_EPOCH }));
        let queued = serde_json::to_value(&data).unwrap();
        assert!(queued["version"] == 2 && queued["queued"]["priority"] == 3, "{queued}");
        assert_eq!(data.fault(&TaskState::new()), None);
        data.set_queued(None);
        assert_eq!(serde_json::to_value(&data).unwrap(), unqueued);
        data.version = 3;
        assert!(data.fault(&TaskState::new()).unwrap().contains("supports 1 to 2"));
    }
}
