//! Common contents of the workspaces of all services: data in addition to the state, the turns of agents, and a log of typed
//! events.

use std::{collections::BTreeMap, fs, io, path::PathBuf, time::SystemTime};

use nexus_core::{RecordFile, RecordLog, ServiceError, ServiceErrorKind, ServiceFault};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Workspace, WorkspaceErrorKind, WorkspaceId, WorkspaceState, WorkspaceStatus, Workspaces};

/// Name of the file with the agents' turns, in the folder of a workspace.
const TURNS: &str = "turns.jsonl";

/// Data of a service in addition to the state `S`: the field `data` of `status.json`.
pub trait WorkData<S>: Serialize + DeserializeOwned {
    /// Version of the format, in the field `version` of the data.
    const VERSION: u32;

    /// Returns the fault of data that the service cannot have written with this state.
    fn fault(&self, state: &S) -> Option<String>;
}

/// Status of a workspace at the time of reading, with the data `D` of its service.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkSnapshot<S, D> {
    /// State of the work.
    pub state: S,
    /// Data of the service.
    pub data: D,
    /// Labels by which the caller finds the work.
    pub labels: BTreeMap<String, String>,
    /// Workspace that this work is a part of.
    pub parent: Option<WorkspaceId>,
    /// Linked workspaces.
    pub links: Vec<WorkspaceId>,
    /// Creation time.
    pub created_at: SystemTime,
    /// Time of the last change of the status.
    pub updated_at: SystemTime,
    /// Number of writes of the status.
    pub generation: u64,
}

/// Workspaces of a service with their snapshots, at the time of listing.
#[derive(Debug)]
pub struct WorkListing<W, P, K> {
    /// Readable work, oldest first.
    pub entries: Vec<(W, P)>,
    /// Errors of the unreadable work.
    pub unreadable: Vec<ServiceError<K>>,
}

impl<S: WorkspaceState> Workspaces<S> {
    /// Opens the workspace of an id.
    ///
    /// # Errors
    ///
    /// Unknown, if the text is not an id or no work has it; damaged, if the content of its `status.json` was
    /// changed.
    pub fn open_named<K: ServiceErrorKind>(&self, name: &str) -> Result<Workspace<S>, ServiceError<K>> {
        let unknown = |message: String| ServiceError::of(ServiceFault::Unknown, message);
        let id: WorkspaceId = name.parse().map_err(|error| unknown(format!("{error}")))?;
        self.open(&id).map_err(|error| match error.kind() {
            WorkspaceErrorKind::NotFound | WorkspaceErrorKind::OtherKind => {
                unknown(format!("the {} {id} does not exist", S::KIND))
            }
            _ => error.into(),
        })
    }

    /// Lists all work, oldest first. An unreadable workspace does not hide the others. `open` converts a workspace to the
    /// service's own type.
    ///
    /// # Errors
    ///
    /// Errors of the file system, if the folder cannot be read.
    pub fn list_work<D: WorkData<S>, K: ServiceErrorKind, W>(
        &self,
        open: impl Fn(Workspace<S>) -> W,
    ) -> Result<WorkListing<W, WorkSnapshot<S, D>, K>, ServiceError<K>> {
        let list = self.list()?;
        let unreadable = list.unreadable.into_iter().map(ServiceError::from).collect();
        let mut listing = WorkListing { entries: Vec::new(), unreadable };
        for entry in list.entries {
            match entry.workspace.snapshot_of(&entry.status) {
                Ok(snapshot) => listing.entries.push((open(entry.workspace), snapshot)),
                Err(error) => listing.unreadable.push(error),
            }
        }
        Ok(listing)
    }
}

impl<S: WorkspaceState> Workspace<S> {
    /// Reads the status with the data of the service. Takes no lock.
    ///
    /// # Errors
    ///
    /// Damaged, if the file is not a valid status of the service.
    pub fn snapshot<D: WorkData<S>, K: ServiceErrorKind>(
        &self,
    ) -> Result<WorkSnapshot<S, D>, ServiceError<K>> {
        self.snapshot_of(&self.status()?)
    }

    fn snapshot_of<D: WorkData<S>, K: ServiceErrorKind>(
        &self,
        status: &WorkspaceStatus<S>,
    ) -> Result<WorkSnapshot<S, D>, ServiceError<K>> {
        Ok(WorkSnapshot {
            state: status.state.clone(),
            data: self.data_of(status)?,
            labels: status.labels.clone(),
            parent: status.parent_workspace_id().cloned(),
            links: status.linked_workspace_ids().iter().cloned().collect(),
            created_at: status.created_at(),
            updated_at: status.updated_at(),
            generation: status.generation(),
        })
    }

    fn data_of<D: WorkData<S>, K: ServiceErrorKind>(
        &self,
        status: &WorkspaceStatus<S>,
    ) -> Result<D, ServiceError<K>> {
        let path = self.path().join("status.json");
        let version = status.data.get("version").and_then(serde_json::Value::as_u64);
        if version.is_some_and(|version| version > u64::from(D::VERSION)) {
            let message = format!("a newer version of Nexus wrote `data` in {path:?}");
            let kind = K::of(ServiceFault::Damaged);
            return Err(ServiceError::new(kind, message, "update this Nexus; nothing was changed"));
        }
        let data: D = serde_json::from_value(status.data.clone())
            .map_err(|error| ServiceError::damaged(&path, format_args!("`data`: {error}")))?;
        match data.fault(&status.state) {
            Some(fault) => Err(ServiceError::damaged(&path, fault)),
            None => Ok(data),
        }
    }

    /// Changes the state and the data of the status under a lock. If `change` fails, nothing is written.
    ///
    /// # Errors
    ///
    /// Errors of [`snapshot`](Self::snapshot) and of `change`; errors of the file system. The old status is in place then.
    pub fn update_data<D: WorkData<S>, K: ServiceErrorKind, T>(
        &self,
        change: impl FnOnce(&mut S, &mut D) -> Result<T, ServiceError<K>>,
    ) -> Result<T, ServiceError<K>> {
        self.try_update(|status| {
            let mut data: D = self.data_of(status)?;
            let mut state = status.state.clone();
            let answer = change(&mut state, &mut data)?;
            // Check before the write, because a status with a fault could not be read again.
            if let Some(fault) = data.fault(&state) {
                let message = format!("the status of {} would be unreadable: {fault}", self.id());
                let kind = K::of(ServiceFault::Failed);
                return Err(ServiceError::new(kind, message, "nothing was written; report this"));
            }
            status.data =
                serde_json::to_value(&data).map_err(|error| ServiceError::damaged(self.path(), error))?;
            status.state = state;
            Ok(answer)
        })
    }

    /// Returns the path of the file with the turns of the agents.
    pub fn turns_path(&self) -> PathBuf {
        self.path().join(TURNS)
    }

    /// Opens the file that records the turns of the agents.
    ///
    /// # Errors
    ///
    /// Damaged, if the file does not contain records of turns.
    pub fn turns<K: ServiceErrorKind>(&self) -> Result<RecordFile, ServiceError<K>> {
        let path = self.turns_path();
        // Opening a pipe could block the call.
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(ServiceError::damaged(&path, "it is not a regular file"));
        }
        RecordFile::open(&path).map_err(|error| ServiceError::damaged(&path, error))
    }

    /// Reads the turns of the agents. Empty without a file.
    ///
    /// # Errors
    ///
    /// Damaged, if it is not a regular file; errors of the file system.
    pub fn turn_log<K: ServiceErrorKind>(&self) -> Result<RecordLog, ServiceError<K>> {
        let path = self.turns_path();
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(RecordLog::default()),
            Ok(found) if !found.is_file() => {
                return Err(ServiceError::damaged(&path, "it is not a regular file"));
            }
            _ => {}
        }
        RecordLog::read(&path).map_err(ServiceError::at(&path))
    }

    /// Appends an event to the log. The type must serialize to `kind` and `data`.
    ///
    /// # Errors
    ///
    /// Errors of the file system.
    pub fn log<K: ServiceErrorKind>(&self, event: &impl Serialize) -> Result<(), ServiceError<K>> {
        let value = serde_json::to_value(event).unwrap_or_default();
        let kind = value.get("kind").and_then(|kind| kind.as_str()).unwrap_or("unknown").to_owned();
        self.append(kind, value.get("data").cloned().unwrap_or_default())?;
        Ok(())
    }
}
