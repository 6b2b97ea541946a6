//! One debate: its folder.
//!
//! | file | holds |
//! | --- | --- |
//! | `status.json` | the truth: [`DebateState`], and [`DebateData`] beside it |
//! | `events.jsonl` | what happened, for people; nothing is decided by it |
//! | `stages/NAME.json` | what a stage came to ([`StageRecord`]); counts once the status has left the stage |
//! | `sources/NAME/` | copies of the sources, each in a folder of its own |
//! | `turns.jsonl` | every turn of every agent |
//! | `.stage` | nothing; whoever runs a stage holds a lock on it |

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use nexus_core::{RecordFile, RecordLog};
use nexus_work::{EventLog, LockedWork, LoggedTurn, WorkSnapshot, WorkWatch, Workspace, WorkspaceId};
use serde::{Deserialize, Serialize};

use crate::{
    data::DebateData,
    debate_error::{DebateError, DebateErrorKind},
    proceedings::Proceedings,
    record::StageRecord,
    state::DebateState,
};

/// The largest record of a stage, in bytes.
const MOST_RECORD_BYTES: u64 = 64 << 20;

/// Names a debate: the name of its workspace.
pub type DebateId = WorkspaceId;

/// One debate: its folder, and what is in it. It keeps nothing open: any number of them may be of one debate.
///
/// Every call reads or writes files and may wait for a lock: in async code, call it by the runtime's `spawn_blocking`.
#[derive(Clone)]
pub struct Debate {
    workspace: Workspace<DebateState>,
}

/// `status.json` of a debate at the time of reading.
pub type DebateSnapshot = WorkSnapshot<DebateState, DebateData>;

/// One thing that happened in a debate: a line of its `events.jsonl`, for people. Nothing is decided by it, and nothing of it is shown
/// to an agent.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum DebateLogEvent {
    /// A stage began.
    StageBegan {
        /// Its name in files.
        stage: String,
    },
    /// A frame was refused.
    FrameRefused {
        /// Reason for the refusal.
        reason: String,
    },
    /// A turn of an agent ended.
    TurnEnded(Box<LoggedTurn>),
    /// A panelist submitted nothing.
    Absent {
        /// The stage.
        stage: String,
        /// The panelist.
        panelist: String,
        /// Why.
        reason: String,
    },
    /// A stage was run, and counts.
    StageSettled {
        /// Its name in files.
        stage: String,
        /// The status after it.
        status: String,
    },
    /// A stage came to nothing.
    StageFailed {
        /// Its name in files.
        stage: String,
        /// Why.
        reason: String,
    },
    /// The caller ended it.
    Cancelled,
    /// A task was created that follows from it.
    TaskSpawned {
        /// The task.
        task_id: String,
    },
}

impl Debate {
    pub(crate) fn of(workspace: Workspace<DebateState>) -> Self {
        Self { workspace }
    }

    /// Its id.
    pub fn id(&self) -> &DebateId {
        self.workspace.id()
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads `status.json`. It never waits for another process.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if its content was changed.
    pub fn snapshot(&self) -> Result<DebateSnapshot, DebateError> {
        self.workspace.snapshot()
    }

    /// Reads `status.json`, changes it and writes it, under the lock of its writers. A change that fails writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Debate::snapshot`]; those of `change`; [`NoSpace`](DebateErrorKind::NoSpace) and the like,
    /// with the old status in place.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut DebateState, &mut DebateData) -> Result<T, DebateError>,
    ) -> Result<T, DebateError> {
        self.workspace.update_data(change)
    }

    /// The debate so far: the records of finished stages, each checked again.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if a record is missing or its content was changed.
    pub fn proceedings(&self, data: &DebateData) -> Result<Proceedings, DebateError> {
        let mut proceedings = Proceedings::new(data.settings.bounds());
        for stage in &data.settled {
            let path = self.stage_file(stage);
            let bytes = nexus_files::read_bounded(&path, MOST_RECORD_BYTES)
                .map_err(DebateError::at(&path))?
                .ok_or_else(|| DebateError::damaged(&path, "it is gone"))?;
            let record: StageRecord = serde_json::from_slice(&bytes)
                .map_err(|error| DebateError::damaged(&path, error.to_string()))?;
            proceedings.add(record).map_err(|reason| DebateError::damaged(&path, &reason))?;
        }
        Ok(proceedings)
    }

    /// Writes down what a stage came to; it counts when the status leaves the stage.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write_stage(&self, stage: &str, record: &StageRecord) -> Result<(), DebateError> {
        let path = self.stage_file(stage);
        let folder = path.parent().unwrap_or(&path);
        // By a link it would lie elsewhere.
        if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
            return Err(DebateError::damaged(folder, "it is not a folder, as required"));
        }
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| DebateError::damaged(&path, error.to_string()))?;
        nexus_files::replace(&path, &bytes).map_err(DebateError::at(&path))
    }

    /// The folder of its sources.
    pub fn sources_folder(&self) -> PathBuf {
        self.folder().join("sources")
    }

    /// File for records of its agents' turns.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if the file does not hold records of turns.
    pub fn turns(&self) -> Result<RecordFile, DebateError> {
        self.workspace.turns()
    }

    /// Recorded turns of its agents; empty without a file.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if it is not a regular file; those of the file system.
    pub fn turn_log(&self) -> Result<RecordLog, DebateError> {
        self.workspace.turn_log()
    }

    /// Appends to its log.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn log(&self, event: &DebateLogEvent) -> Result<(), DebateError> {
        self.workspace.log(event)
    }

    /// Watches it from now on. Runs in a Tokio runtime.
    pub fn watch(&self) -> WorkWatch {
        WorkWatch::of(self)
    }

    /// Reads its log.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if it has gaps.
    pub fn events(&self) -> Result<EventLog, DebateError> {
        Ok(self.workspace.events()?)
    }

    fn stage_file(&self, stage: &str) -> PathBuf {
        self.folder().join("stages").join(format!("{stage}.json"))
    }
}

impl LockedWork for Debate {
    type State = DebateState;
    type ErrorKind = DebateErrorKind;
    const LOCK: &'static str = ".stage";

    fn workspace(&self) -> &Workspace<DebateState> {
        &self.workspace
    }
}

impl fmt::Debug for Debate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debate")
            .field("id", self.id())
            .field("folder", &self.folder())
            .finish_non_exhaustive()
    }
}
