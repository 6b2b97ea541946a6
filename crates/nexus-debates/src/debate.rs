//! One debate: its folder.
//!
//! | file | content |
//! | --- | --- |
//! | `status.json` | [`DebateState`] and [`DebateData`]: the only authority on the debate |
//! | `events.jsonl` | events, for people; no program decides by them |
//! | `stages/NAME.json` | result of a stage ([`StageRecord`]); it counts once the status has left the stage |
//! | `sources/NAME/` | copies of the sources, each in a separate folder |
//! | `turns.jsonl` | every turn of every agent |
//! | `.stage` | empty; the process that runs a stage locks it |

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

/// Maximum size of a stage's record, in bytes.
const MOST_RECORD_BYTES: u64 = 64 << 20;

/// Id of a debate: the id of its workspace.
pub type DebateId = WorkspaceId;

/// One debate: its folder, and the files in it. It has no open files: any number of them may exist for one debate.
///
/// Every call reads or writes files and may wait for a lock: in async code, call it inside `spawn_blocking`.
#[derive(Clone)]
pub struct Debate {
    workspace: Workspace<DebateState>,
}

/// `status.json` of a debate at the time of reading.
pub type DebateSnapshot = WorkSnapshot<DebateState, DebateData>;

/// Event of a debate: a line of its `events.jsonl`, for people. No decision of a program depends on it, and no agent
/// sees it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum DebateLogEvent {
    /// A stage began.
    StageBegan {
        /// Name of the stage in files.
        stage: String,
    },
    /// A frame was rejected.
    FrameRefused {
        /// Reason for the rejection.
        reason: String,
    },
    /// A turn of an agent ended.
    TurnEnded(Box<LoggedTurn>),
    /// A panelist submitted nothing.
    Absent {
        /// Name of the stage in files.
        stage: String,
        /// Name of the panelist.
        panelist: String,
        /// Reason for the absence.
        reason: String,
    },
    /// A stage has ended, and its record counts.
    StageSettled {
        /// Name of the stage in files.
        stage: String,
        /// Status after the stage.
        status: String,
    },
    /// A stage failed.
    StageFailed {
        /// Name of the stage in files.
        stage: String,
        /// Reason for the failure.
        reason: String,
    },
    /// The caller cancelled the debate.
    Cancelled,
    /// A follow-up task was created.
    TaskSpawned {
        /// Id of the task.
        task_id: String,
    },
}

impl Debate {
    pub(crate) fn of(workspace: Workspace<DebateState>) -> Self {
        Self { workspace }
    }

    /// Returns the id.
    pub fn id(&self) -> &DebateId {
        self.workspace.id()
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads `status.json`. It never waits for another process.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if the content was changed from outside.
    pub fn snapshot(&self) -> Result<DebateSnapshot, DebateError> {
        self.workspace.snapshot()
    }

    /// Changes `status.json` under the lock of its writers. If `change` fails, nothing is written.
    ///
    /// # Errors
    ///
    /// Errors of [`Debate::snapshot`] and of `change`; [`NoSpace`](DebateErrorKind::NoSpace) and similar ones, with the old
    /// status in place.
    pub fn update<T>(
        &self,
        change: impl FnOnce(&mut DebateState, &mut DebateData) -> Result<T, DebateError>,
    ) -> Result<T, DebateError> {
        self.workspace.update_data(change)
    }

    /// Returns the debate so far: the records of finished stages, which are checked again.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if a record is missing or was changed from outside.
    pub fn proceedings(&self, data: &DebateData) -> Result<Proceedings, DebateError> {
        let mut proceedings = Proceedings::new(data.settings.bounds());
        // Only these stages count. A further record belongs to a settlement that was interrupted.
        for stage in &data.settled {
            let path = self.stage_file(stage);
            let bytes = nexus_files::read_bounded(&path, MOST_RECORD_BYTES)
                .map_err(DebateError::at(&path))?
                .ok_or_else(|| DebateError::damaged(&path, "it is gone"))?;
            let record: StageRecord = serde_json::from_slice(&bytes)
                .map_err(|error| DebateError::damaged(&path, error.to_string()))?;
            // Check each record again, because a person may have edited the file.
            proceedings.add(record).map_err(|reason| DebateError::damaged(&path, &reason))?;
        }
        Ok(proceedings)
    }

    /// Writes the record of a stage. It counts once the status has left the stage.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn write_stage(&self, stage: &str, record: &StageRecord) -> Result<(), DebateError> {
        let path = self.stage_file(stage);
        let folder = path.parent().unwrap_or(&path);
        // Reject a link, which would put the record elsewhere.
        if fs::symlink_metadata(folder).is_ok_and(|found| !found.is_dir()) {
            return Err(DebateError::damaged(folder, "it is not a folder, as required"));
        }
        let bytes = serde_json::to_vec_pretty(record)
            .map_err(|error| DebateError::damaged(&path, error.to_string()))?;
        nexus_files::replace(&path, &bytes).map_err(DebateError::at(&path))
    }

    /// Returns the folder of the sources.
    pub fn sources_folder(&self) -> PathBuf {
        self.folder().join("sources")
    }

    /// Opens the file that records the turns of the agents.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if the file does not contain records of turns.
    pub fn turns(&self) -> Result<RecordFile, DebateError> {
        self.workspace.turns()
    }

    /// Returns the recorded turns of the agents. Empty without a file.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if it is not a regular file; errors of the file system.
    pub fn turn_log(&self) -> Result<RecordLog, DebateError> {
        self.workspace.turn_log()
    }

    /// Appends an event to the log.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn log(&self, event: &DebateLogEvent) -> Result<(), DebateError> {
        self.workspace.log(event)
    }

    /// Starts to watch the debate. Must run in a Tokio runtime.
    pub fn watch(&self) -> WorkWatch {
        WorkWatch::of(self)
    }

    /// Reads the log.
    ///
    /// # Errors
    ///
    /// [`Damaged`](DebateErrorKind::Damaged) if the numbers of its events have gaps.
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
