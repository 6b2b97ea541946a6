//! The workspaces below one folder.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io,
    marker::PhantomData,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    NewWorkspace, Workspace, WorkspaceError, WorkspaceErrorKind, WorkspaceId, WorkspaceState,
    WorkspaceStatus, event_log, file, links::Links, lock, settings::Settings, status_file,
};
use nexus_core::Clock;
use nexus_files::{Journal, rfc3339};
use serde::{Serialize, de::DeserializeOwned};

/// Prefix of the name of a workspace that is being created or removed.
const UNFINISHED: &str = ".new-";
/// Age at which an unfinished workspace counts as left by a dead process.
const STALE: Duration = Duration::from_secs(60 * 60);

/// The workspaces below one folder whose state is an `S`. Each is a folder named by its id. The folder may also contain
/// workspaces of other owners; an id names only one of all.
#[derive(Clone, Debug)]
pub struct Workspaces<S> {
    root: PathBuf,
    settings: Settings,
    state: PhantomData<fn() -> S>,
}

impl<S: WorkspaceState> Workspace<S> {
    /// Returns the parts of this workspace, of the same kind. For parts of another kind, see [`Workspaces::of`].
    ///
    /// # Errors
    ///
    /// As [`Workspaces::list`].
    pub fn children(&self) -> Result<WorkspaceList<S>, WorkspaceError> {
        self.siblings().children(self.id())
    }

    /// Links this workspace and another one in the same folder, of any kind: afterwards both statuses name each other, or
    /// neither does. If the link exists, nothing is written.
    ///
    /// If the writer is killed in between, or has no space to undo its write, the link is completed or forgotten when one of
    /// the two is opened.
    ///
    /// # Errors
    ///
    /// As [`Workspace::update`], for both of them; errors of opening the other one;
    /// [`Unwritable`](WorkspaceErrorKind::Unwritable) if both are the same workspace.
    pub fn link(&self, other: &WorkspaceId) -> Result<(), WorkspaceError> {
        self.links().link(self.id(), other)
    }

    /// Returns the workspaces in the same folder, including this one.
    fn siblings(&self) -> Workspaces<S> {
        let (root, settings) = self.root();
        Workspaces::with_settings(root, settings.clone())
    }
}

impl<S: WorkspaceState> Workspaces<S> {
    /// Workspaces in the folder `root`. Nothing is opened yet; the first [`create`](Self::create) creates the
    /// folder.
    pub fn below(root: impl AsRef<Path>) -> Self {
        Self::with_settings(root.as_ref(), Settings::default())
    }

    pub(super) fn with_settings(root: &Path, settings: Settings) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        Self { root, settings, state: PhantomData }
    }

    /// Sets the clock. The system's clock by default.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets the longest wait for another writer. 30 seconds by default.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// Records each change of a workspace in the journal of the home: its creation, its removal, each new status, and each
    /// event by its kind.
    #[must_use]
    pub fn with_journal(mut self, journal: Arc<Journal>) -> Self {
        self.settings.journal = Some(journal);
        self
    }

    /// Returns the workspaces of another owner in the same folder.
    pub fn of<T: WorkspaceState>(&self) -> Workspaces<T> {
        Workspaces::with_settings(&self.root, self.settings.clone())
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Creates a workspace. It appears completely, or not at all; of two with one id, one is created. Its parent and its
    /// linked workspaces name it when it appears.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](WorkspaceErrorKind::AlreadyExists) if anything has this name;
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if its parent, or a linked workspace, does not exist;
    /// [`InUse`](WorkspaceErrorKind::InUse) if a writer of one of them does not end in time;
    /// [`Unwritable`](WorkspaceErrorKind::Unwritable), [`NoSpace`](WorkspaceErrorKind::NoSpace) and
    /// [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied).
    pub fn create(&self, new: NewWorkspace<S>) -> Result<Workspace<S>, WorkspaceError> {
        let links = Links::below(&self.root, &self.settings);
        let others: BTreeSet<WorkspaceId> = new.parent.iter().chain(&new.links).cloned().collect();
        for other in &others {
            links.status(other)?;
        }
        self.make_root()?;
        self.sweep();
        let id = new.id.unwrap_or_else(WorkspaceId::random);
        let now = rfc3339::cut_to_micros(self.settings.clock.now());
        let status = WorkspaceStatus {
            id: id.clone(),
            kind: S::KIND.to_owned(),
            generation: 1,
            created_at: now,
            updated_at: now,
            parent: new.parent,
            state: new.state,
            linked_workspace_ids: new.links,
            pending_link_ids: BTreeSet::new(),
            labels: new.labels,
            data: new.data,
            unknown: Vec::new(),
        };
        let folder = self.root.join(id.as_str());
        // Check the name before other workspaces get links to it.
        refuse_taken(&folder)?;
        // Fill a folder of another name and rename it, so that every listed workspace is complete.
        let unfinished = self.root.join(format!("{UNFINISHED}{}", WorkspaceId::random()));
        let made = fill(&unfinished, &status)
            .and_then(|()| links.introduce(&id, &others, || put_in_place(&unfinished, &folder)));
        if let Err(error) = made {
            // A folder that stays is removed when it is stale.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        file::sync_folder(&self.root)?;
        self.settings.record(S::KIND, &id, "created");
        Ok(Workspace::unread(id, folder, self.settings.clone()))
    }

    /// Opens a workspace.
    ///
    /// # Errors
    ///
    /// As [`Workspace::open`].
    pub fn open(&self, id: &WorkspaceId) -> Result<Workspace<S>, WorkspaceError> {
        Workspace::at(id.clone(), self.root.join(id.as_str()), self.settings.clone())
    }

    /// Removes a workspace with its content: completely or not at all for other processes. Links of other workspaces to it
    /// stay. The caller ensures that no process works in it.
    ///
    /// # Errors
    ///
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if it does not exist;
    /// [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied) and [`Io`](WorkspaceErrorKind::Io). With these two, the
    /// workspace may be gone while some of its files remain under another name; those are removed when they are an hour old.
    pub fn remove(&self, id: &WorkspaceId) -> Result<(), WorkspaceError> {
        let folder = self.root.join(id.as_str());
        let unfinished = self.root.join(format!("{UNFINISHED}{}", WorkspaceId::random()));
        let failed = |error| WorkspaceError::from_io(&folder, "cannot be removed", error);
        // Rename before the removal, so that no process sees half a workspace.
        fs::rename(&folder, &unfinished).map_err(failed)?;
        file::sync_folder(&self.root)?;
        self.settings.record(S::KIND, id, "removed");
        fs::remove_dir_all(&unfinished).map_err(failed)
    }

    /// Reads the status of every workspace below the folder, the oldest first. It skips workspaces of another
    /// kind, and all other files. A missing folder has no workspaces.
    ///
    /// # Errors
    ///
    /// [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied) and [`Io`](WorkspaceErrorKind::Io) if the
    /// folder cannot be read. A damaged workspace hides no other: see [`WorkspaceList::unreadable`].
    pub fn list(&self) -> Result<WorkspaceList<S>, WorkspaceError> {
        let mut list = WorkspaceList { entries: Vec::new(), unreadable: Vec::new() };
        for id in self.ids()? {
            let workspace = self.unread(id);
            match workspace.status() {
                Ok(status) => list.entries.push(WorkspaceEntry { workspace, status }),
                // The workspace was removed since the folder was listed.
                Err(error)
                    if matches!(
                        error.kind(),
                        WorkspaceErrorKind::NotFound | WorkspaceErrorKind::OtherKind
                    ) => {}
                Err(error) => list.unreadable.push(error),
            }
        }
        list.entries.sort_by(|one, other| {
            let key = |entry: &WorkspaceEntry<S>| (entry.status.created_at, entry.status.id.clone());
            key(one).cmp(&key(other))
        });
        list.unreadable.sort_by(|one, other| one.path().cmp(other.path()));
        Ok(list)
    }

    /// Returns the ids of all workspaces below the folder, of any kind, in no order.
    pub(super) fn ids(&self) -> Result<Vec<WorkspaceId>, WorkspaceError> {
        let failed = |error| WorkspaceError::from_io(&self.root, "cannot be listed", error);
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<WorkspaceId>().ok());
            ids.extend(id.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())));
        }
        Ok(ids)
    }

    /// Returns the workspace with this id, without reading it. It may not exist.
    pub(super) fn unread(&self, id: WorkspaceId) -> Workspace<S> {
        let folder = self.root.join(id.as_str());
        Workspace::unread(id, folder, self.settings.clone())
    }

    /// Reads the status of every part of the workspace `id`, oldest first.
    ///
    /// # Errors
    ///
    /// As [`Workspaces::list`].
    pub fn children(&self, id: &WorkspaceId) -> Result<WorkspaceList<S>, WorkspaceError> {
        let mut list = self.list()?;
        list.entries.retain(|entry| entry.status.parent.as_ref() == Some(id));
        Ok(list)
    }

    /// Creates the folder of the workspaces with its parents. The created folders survive a loss of power.
    fn make_root(&self) -> Result<(), WorkspaceError> {
        let is_missing = |folder: &&Path| matches!(fs::metadata(folder), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let missing: Vec<&Path> = self.root.ancestors().take_while(is_missing).collect();
        nexus_files::make_private_folder(&self.root)
            .map_err(|error| WorkspaceError::from_io(&self.root, "cannot be made", error))?;
        // Flush the parents of new folders, so that a crash does not lose the folders themselves.
        missing.iter().filter_map(|folder| folder.parent()).try_for_each(file::sync_folder)
    }

    /// Removes leftovers of dead processes.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.root) else { return };
        for entry in entries.flatten() {
            let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(UNFINISHED));
            if is_ours
                && let Ok(found) = entry.metadata()
                && found.is_dir()
                && let Ok(modified) = found.modified()
                && modified.elapsed().is_ok_and(|age| age > STALE)
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Writes the files of a new workspace into a folder that only this process knows.
fn fill<S: Serialize + DeserializeOwned>(
    folder: &Path,
    status: &WorkspaceStatus<S>,
) -> Result<(), WorkspaceError> {
    nexus_files::create_private_folder(folder)
        .map_err(|error| WorkspaceError::from_io(folder, "cannot be made", error))?;
    for name in [lock::NAME, event_log::NAME] {
        file::open_or_create(&folder.join(name), OpenOptions::new().read(true).write(true))?;
    }
    status_file::write(folder, status)
}

fn put_in_place(unfinished: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    refuse_taken(folder)?;
    fs::rename(unfinished, folder).map_err(|error| match refuse_taken(folder) {
        Err(taken) => taken,
        Ok(()) => WorkspaceError::from_io(folder, "cannot be made", error),
    })
}

fn refuse_taken(folder: &Path) -> Result<(), WorkspaceError> {
    if fs::symlink_metadata(folder).is_err() {
        return Ok(());
    }
    let reason = "already exists: choose another id, or open it";
    Err(WorkspaceError::new(WorkspaceErrorKind::AlreadyExists, folder, reason))
}

/// Result of listing workspaces.
#[non_exhaustive]
#[derive(Debug)]
pub struct WorkspaceList<S> {
    /// Readable workspaces, oldest first.
    pub entries: Vec<WorkspaceEntry<S>>,
    /// Errors of the unreadable workspaces.
    pub unreadable: Vec<WorkspaceError>,
}

/// A workspace with its status at the time of listing.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct WorkspaceEntry<S> {
    /// The workspace.
    pub workspace: Workspace<S>,
    /// Content of its `status.json`.
    pub status: WorkspaceStatus<S>,
}
