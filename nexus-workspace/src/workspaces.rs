//! The workspaces of one place.

use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    NewWorkspace, Workspace, WorkspaceError, WorkspaceErrorKind, WorkspaceId, WorkspaceState,
    WorkspaceStatus, event_log, file, lock, status_file, time, workspace::Settings,
};
use nexus_core::Clock;

/// Begins the name of a workspace that is being created.
const UNFINISHED: &str = ".new-";
/// How old an unfinished workspace must be before it is taken for a dead creator's.
const STALE: Duration = Duration::from_secs(60 * 60);

/// The workspaces of one place: the folders in a folder, each named by the id of its workspace.
#[derive(Clone, Debug)]
pub struct Workspaces {
    root: PathBuf,
    settings: Settings,
}

impl Workspace {
    /// The workspaces beside this one that are parts of it.
    ///
    /// # Errors
    ///
    /// As [`Workspaces::list`].
    pub fn children(&self) -> Result<WorkspaceList, WorkspaceError> {
        self.siblings().children(self.id())
    }

    /// Links this workspace to another one of the same place. The other one is not changed.
    ///
    /// # Errors
    ///
    /// As [`Workspace::update`]; those of opening the other one; [`Unwritable`](WorkspaceErrorKind::Unwritable) if it is
    /// this one.
    pub fn link(&self, other: &WorkspaceId) -> Result<(), WorkspaceError> {
        if other == self.id() {
            let reason = "cannot be linked to itself";
            return Err(WorkspaceError::new(WorkspaceErrorKind::Unwritable, self.path(), reason));
        }
        self.siblings().open(other)?;
        self.update(|status| {
            status.linked_workspace_ids.insert(other.clone());
        })
    }

    /// The workspaces in the same folder, this one included.
    fn siblings(&self) -> Workspaces {
        let (root, settings) = self.root();
        Workspaces::with_settings(root, settings.clone())
    }
}

impl Workspaces {
    /// Those in the folder `root`. Nothing is opened yet; the first [`create`](Self::create) makes the folder.
    pub fn below(root: impl AsRef<Path>) -> Self {
        Self::with_settings(root.as_ref(), Settings::default())
    }

    pub(super) fn with_settings(root: &Path, settings: Settings) -> Self {
        Self { root: std::path::absolute(root).unwrap_or_else(|_| root.to_owned()), settings }
    }

    /// Takes the time from another clock than the system's.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Waits this long for another writer, instead of 30 seconds.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience;
        self
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Creates a workspace. It appears as a whole, or not at all; of two with one id, one is created.
    ///
    /// # Errors
    ///
    /// [`AlreadyExists`](WorkspaceErrorKind::AlreadyExists) if there is anything of this name;
    /// [`NotFound`](WorkspaceErrorKind::NotFound) if its parent, or one that it is linked to, is not there;
    /// [`Unwritable`](WorkspaceErrorKind::Unwritable), [`NoSpace`](WorkspaceErrorKind::NoSpace) and
    /// [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied).
    pub fn create(&self, new: NewWorkspace) -> Result<Workspace, WorkspaceError> {
        for other in new.parent.iter().chain(&new.links) {
            self.open(other)?;
        }
        self.make_root()?;
        self.sweep();
        let id = new.id.unwrap_or_else(WorkspaceId::random);
        let now = time::now(&*self.settings.clock);
        let status = WorkspaceStatus {
            id: id.clone(),
            generation: 1,
            created_at: now,
            updated_at: now,
            parent: new.parent,
            state: WorkspaceState::Created,
            reason: None,
            linked_workspace_ids: new.links,
            labels: new.labels,
            data: new.data,
            unknown: Vec::new(),
        };
        let folder = self.root.join(id.as_str());
        let unfinished = self.root.join(format!("{UNFINISHED}{}", WorkspaceId::random()));
        let made = fill(&unfinished, &status).and_then(|()| put_in_place(&unfinished, &folder));
        if let Err(error) = made {
            // What cannot be removed now is removed when it is stale.
            let _ = fs::remove_dir_all(&unfinished);
            return Err(error);
        }
        file::sync_folder(&self.root)?;
        Ok(Workspace::unread(id, folder, self.settings.clone()))
    }

    /// Opens a workspace.
    ///
    /// # Errors
    ///
    /// As [`Workspace::open`].
    pub fn open(&self, id: &WorkspaceId) -> Result<Workspace, WorkspaceError> {
        Workspace::at(id.clone(), self.root.join(id.as_str()), self.settings.clone())
    }

    /// Reads the status of every workspace here, the oldest first. What is no folder with the name of a workspace is
    /// passed over. Where the place itself is not there yet, there are none.
    ///
    /// # Errors
    ///
    /// [`PermissionDenied`](WorkspaceErrorKind::PermissionDenied) and [`Io`](WorkspaceErrorKind::Io) if the place cannot
    /// be read. What is wrong with one workspace hides no other: see [`WorkspaceList::unreadable`].
    pub fn list(&self) -> Result<WorkspaceList, WorkspaceError> {
        let failed = |error| WorkspaceError::from_io(&self.root, "cannot be listed", error);
        let mut list = WorkspaceList::default();
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(list),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let id = entry.file_name().to_str().and_then(|name| name.parse::<WorkspaceId>().ok());
            let (Some(id), true) = (id, entry.file_type().is_ok_and(|kind| kind.is_dir())) else { continue };
            let workspace = Workspace::unread(id, entry.path(), self.settings.clone());
            match workspace.status() {
                Ok(status) => list.entries.push(WorkspaceEntry { workspace, status }),
                // It was removed in between.
                Err(error) if error.kind() == WorkspaceErrorKind::NotFound => {}
                Err(error) => list.unreadable.push(error),
            }
        }
        list.entries.sort_by(|one, other| {
            let key = |entry: &WorkspaceEntry| (entry.status.created_at, entry.status.id.clone());
            key(one).cmp(&key(other))
        });
        list.unreadable.sort_by(|one, other| one.path().cmp(other.path()));
        Ok(list)
    }

    /// Reads the status of every workspace here that is a part of this one, the oldest first.
    ///
    /// # Errors
    ///
    /// As [`Workspaces::list`].
    pub fn children(&self, id: &WorkspaceId) -> Result<WorkspaceList, WorkspaceError> {
        let mut list = self.list()?;
        list.entries.retain(|entry| entry.status.parent.as_ref() == Some(id));
        Ok(list)
    }

    /// Makes the place, with the folders above it. What is made survives a loss of power.
    fn make_root(&self) -> Result<(), WorkspaceError> {
        let is_missing = |folder: &&Path| matches!(fs::metadata(folder), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let missing: Vec<&Path> = self.root.ancestors().take_while(is_missing).collect();
        file::folder_builder()
            .recursive(true)
            .create(&self.root)
            .map_err(|error| WorkspaceError::from_io(&self.root, "cannot be made", error))?;
        missing.iter().filter_map(|folder| folder.parent()).try_for_each(file::sync_folder)
    }

    /// Removes what dead creators left.
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

/// Writes the files of a new workspace into a folder that nobody knows yet.
fn fill(folder: &Path, status: &WorkspaceStatus) -> Result<(), WorkspaceError> {
    file::folder_builder()
        .create(folder)
        .map_err(|error| WorkspaceError::from_io(folder, "cannot be made", error))?;
    for name in [lock::NAME, event_log::NAME] {
        file::open_or_make(&folder.join(name), OpenOptions::new().read(true).write(true))?;
    }
    status_file::write(folder, status)
}

fn put_in_place(unfinished: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let is_taken = || fs::symlink_metadata(folder).is_ok();
    let taken = || {
        let reason = "is there already: take another id, or open it";
        WorkspaceError::new(WorkspaceErrorKind::AlreadyExists, folder, reason)
    };
    if is_taken() {
        return Err(taken());
    }
    file::patiently(|| fs::rename(unfinished, folder)).map_err(|error| match is_taken() {
        true => taken(),
        false => WorkspaceError::from_io(folder, "cannot be made", error),
    })
}

/// The workspaces of a place.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct WorkspaceList {
    /// Those that could be read, the oldest first.
    pub entries: Vec<WorkspaceEntry>,
    /// Why others could not be.
    pub unreadable: Vec<WorkspaceError>,
}

/// A workspace, and its status when it was listed.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct WorkspaceEntry {
    /// The workspace.
    pub workspace: Workspace,
    /// What its `status.json` said.
    pub status: WorkspaceStatus,
}
