//! One workspace.

use std::{
    fmt, fs,
    marker::PhantomData,
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_files::rfc3339;
use serde_json::Value;

use super::{
    EventLog, WorkspaceError, WorkspaceErrorKind, WorkspaceEvent, WorkspaceId, WorkspaceState,
    WorkspaceStatus, event_log,
    links::Links,
    lock::{self, Lock},
    settings::Settings,
    status_file,
};

/// One workspace: a folder whose `status.json` is the only authority on its work. See the [crate] for the guarantees.
///
/// `S` is the owner's type of the state: see [`WorkspaceState`].
///
/// It has no open files and caches nothing but its path. Any number of them may exist for one folder.
#[derive(Clone)]
pub struct Workspace<S> {
    id: WorkspaceId,
    folder: PathBuf,
    settings: Settings,
    state: PhantomData<fn() -> S>,
}

impl<S: WorkspaceState> Workspace<S> {
    /// Opens the workspace in the folder at `path`, whose name is the id. Unless another process is writing, it removes
    /// leftovers of dead writers, completes or forgets unfinished links, and removes links to missing workspaces.
    ///
    /// # Errors
    ///
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if the folder does not exist;
    /// [`NotAWorkspace`](WorkspaceErrorKind::NotAWorkspace) if it is not a workspace;
    /// [`OtherKind`](WorkspaceErrorKind::OtherKind) if it is not of the kind of `S`;
    /// [`NewerVersion`](WorkspaceErrorKind::NewerVersion) and [`Malformed`](WorkspaceErrorKind::Malformed) if its
    /// `status.json` cannot be understood.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let path = path.as_ref();
        let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let id = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
        let Some(id) = id else {
            let reason = "is not a workspace: its name is not a valid id";
            return Err(WorkspaceError::new(WorkspaceErrorKind::NotAWorkspace, &folder, reason));
        };
        Self::at(id, folder, Settings::default())
    }

    /// Opens the workspace in a folder that has its id as the name.
    pub(super) fn at(id: WorkspaceId, folder: PathBuf, settings: Settings) -> Result<Self, WorkspaceError> {
        let workspace = Self::unread(id, folder, settings);
        let status = workspace.status()?;
        workspace.tidy_up();
        workspace.links().mend(&workspace.id, &status);
        Ok(workspace)
    }

    pub(super) fn unread(id: WorkspaceId, folder: PathBuf, settings: Settings) -> Self {
        Self { id, folder, settings, state: PhantomData }
    }

    /// Returns the id.
    pub fn id(&self) -> &WorkspaceId {
        &self.id
    }

    /// Returns the folder. The caller may store files in it, under names that do not begin with a dot.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Reads `status.json`. It takes no lock and never waits.
    ///
    /// # Errors
    ///
    /// Errors of [`Workspace::open`].
    pub fn status(&self) -> Result<WorkspaceStatus<S>, WorkspaceError> {
        status_file::read_of(&self.id, &self.folder, Some(S::KIND))
    }

    /// Reads the status, changes it, and writes it, under the lock. If `change` leaves the status equal, nothing is written.
    /// Returns the value of `change`.
    ///
    /// `change` should be quick and only change the status, because other writers wait. If it panics, nothing is written.
    ///
    /// ```
    /// # use nexus_work::{NewWorkspace, WorkspaceState, Workspaces};
    /// # #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
    /// # struct Debate { round: u32 }
    /// # impl WorkspaceState for Debate {
    /// #     const KIND: &'static str = "debate";
    /// #     fn is_final(&self) -> bool { self.round == 9 }
    /// # }
    /// # let place = tempfile::tempdir()?;
    /// # let workspace = Workspaces::below(place.path()).create(NewWorkspace::new(Debate { round: 0 }))?;
    /// let round = workspace.update(|status| {
    ///     status.state.round += 1;
    ///     status.state.round
    /// })?;
    /// assert_eq!(round, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Workspace::open`]; [`InUse`](WorkspaceErrorKind::InUse) if another writer does not end in time, or if this is
    /// called inside a change of the same workspace; [`Unwritable`](WorkspaceErrorKind::Unwritable),
    /// [`NoSpace`](WorkspaceErrorKind::NoSpace) and [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied), with the old
    /// status in place.
    pub fn update<T>(&self, change: impl FnOnce(&mut WorkspaceStatus<S>) -> T) -> Result<T, WorkspaceError> {
        self.try_update(|status| Ok(change(status)))
    }

    /// Like [`Workspace::update`], with a change that may fail: then nothing is written.
    ///
    /// # Errors
    ///
    /// Errors of [`Workspace::update`], and errors of `change`.
    pub fn try_update<T, E: From<WorkspaceError>>(
        &self,
        change: impl FnOnce(&mut WorkspaceStatus<S>) -> Result<T, E>,
    ) -> Result<T, E> {
        let lock = self.lock()?;
        let before = self.status()?;
        let mut after = before.clone();
        let answer = change(&mut after)?;
        // `change` may have replaced the whole status. Only its changeable fields count, so restore the others.
        after.id.clone_from(&before.id);
        after.kind.clone_from(&before.kind);
        after.parent.clone_from(&before.parent);
        after.linked_workspace_ids.clone_from(&before.linked_workspace_ids);
        after.pending_link_ids.clone_from(&before.pending_link_ids);
        after.unknown.clone_from(&before.unknown);
        after.created_at = before.created_at;
        after.updated_at = before.updated_at;
        after.generation = before.generation;
        if after != before {
            after.generation = before.generation.saturating_add(1);
            after.updated_at = rfc3339::cut_to_micros(self.settings.clock.now());
            status_file::write(&self.folder, &after)?;
            // Release this lock before the journal takes its own.
            drop(lock);
            self.settings.record(&after.kind, &self.id, "changed");
        }
        Ok(answer)
    }

    /// Returns the path of `events.jsonl`.
    pub fn events_path(&self) -> PathBuf {
        self.folder.join(event_log::NAME)
    }

    /// Appends an event to `events.jsonl`, and flushes it to the disk. Returns it with its number.
    ///
    /// # Errors
    ///
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if the workspace is gone; as [`Workspace::update`] for the rest, with
    /// nothing appended.
    pub fn append(&self, kind: impl Into<String>, data: Value) -> Result<WorkspaceEvent, WorkspaceError> {
        let kind = kind.into();
        let lock = self.lock()?;
        let event = event_log::append(&self.folder, |sequence| WorkspaceEvent {
            sequence,
            time: rfc3339::cut_to_micros(self.settings.clock.now()),
            kind,
            data,
        })?;
        drop(lock);
        self.settings.record(S::KIND, &self.id, &event.kind);
        Ok(event)
    }

    /// Reads `events.jsonl`. It takes no lock, unless the last line is incomplete. Then it waits for a writer that may be
    /// completing it, so that a reported torn line is really torn.
    ///
    /// # Errors
    ///
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if the workspace is gone; [`Malformed`](WorkspaceErrorKind::Malformed) if
    /// the numbers have a gap, or if a line is longer than any event; [`InUse`](WorkspaceErrorKind::InUse) if a writer does
    /// not complete the last line in time; [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied) and
    /// [`Io`](WorkspaceErrorKind::Io).
    pub fn events(&self) -> Result<EventLog, WorkspaceError> {
        let log = match event_log::read(&self.folder) {
            // Nothing was appended since the last cleaning, or the workspace is gone.
            Err(error) if error.kind() == WorkspaceErrorKind::NotFound => {
                self.status()?;
                return Ok(EventLog::default());
            }
            log => log?,
        };
        // A torn line may still be in writing, so read again under the lock.
        if log.torn_tail().is_none() || lock::is_held_here(&self.folder) {
            return Ok(log);
        }
        match self.lock() {
            Ok(_lock) => event_log::read(&self.folder),
            // A reader without permission to write can still read.
            Err(error) if error.kind() == WorkspaceErrorKind::PermissionDenied => Ok(log),
            Err(error) => Err(error),
        }
    }

    fn lock(&self) -> Result<Lock, WorkspaceError> {
        Lock::take(&self.folder, self.settings.patience)
    }

    /// Returns the folder that contains this workspace's folder, and the settings of the workspaces in it.
    pub(super) fn root(&self) -> (&Path, &Settings) {
        (self.folder.parent().unwrap_or(&self.folder), &self.settings)
    }

    /// Returns the links between the workspaces in the folder that contains this one's folder.
    pub(super) fn links(&self) -> Links<'_> {
        let (root, settings) = self.root();
        Links::below(root, settings)
    }

    /// Removes leftovers of dead writers. Only under the lock, because the owner of the lock may be writing one of these
    /// files.
    fn tidy_up(&self) {
        let left = || nexus_files::unfinished(&self.folder, status_file::NAME);
        if !left().is_empty()
            && let Ok(_lock) = Lock::take(&self.folder, Duration::ZERO)
        {
            for path in left() {
                // A file that stays does no harm, and the next opening tries again.
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl<S> fmt::Debug for Workspace<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workspace").field("id", &self.id).field("path", &self.folder).finish_non_exhaustive()
    }
}
