//! The tree of a project's artifacts, `.nubos-pilot/`: paths, reads and writes.
//!
//! Names consist of numbers and checked words, so no path leads out of the tree. A link in place of a folder or file is an
//! error. Writers own the lock of the tree.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use nexus_project::{
    ProjectError, ProjectErrorKind,
    file::{self, FolderLock, Patience},
};

use super::{
    document::Artifact,
    id::{MilestoneId, SliceId, SliceTaskId},
    kind::{Kind, Owner},
};

/// Name of the folder of a project's artifacts.
pub(super) const FOLDER: &str = ".nubos-pilot";
/// Name of the lock file of the tree.
const LOCK: &str = ".lock";
/// Lines of the tree's `.gitignore`: the lock, and unfinished files of killed writers.
const IGNORED: [&str; 2] = ["/.lock", ".*.new"];
/// Maximum size of a file, in bytes. Source: our own bound.
const MOST_BYTES: u64 = 4 << 20;

/// The artifacts of a project. Cheap to clone; every call reads the files again.
///
/// Calls read and write files and may wait for other processes: in async code, use the runtime's
/// `spawn_blocking`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    root: PathBuf,
}

impl Artifacts {
    /// Creates access to the artifacts of the project in this folder. Reads and creates nothing.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Finds the artifacts of the nearest folder, from this one upwards, that has a `.nubos-pilot/`. Without one, it uses
    /// the folder itself.
    pub fn find(folder: &Path) -> Self {
        let found = folder.ancestors().find(|above| above.join(FOLDER).is_dir());
        Self::at(found.unwrap_or(folder))
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of the artifacts.
    pub fn folder(&self) -> PathBuf {
        self.root.join(FOLDER)
    }

    /// Returns the folder of all milestones.
    pub(super) fn milestones_folder(&self) -> PathBuf {
        self.folder().join("milestones")
    }

    /// Returns the folder of a milestone.
    pub fn milestone_folder(&self, milestone: MilestoneId) -> PathBuf {
        self.milestones_folder().join(milestone.to_string())
    }

    /// Returns the folder of a slice.
    pub fn slice_folder(&self, slice: SliceId) -> PathBuf {
        self.milestone_folder(slice.milestone).join("slices").join(slice.short())
    }

    /// Returns the folder of a task.
    pub fn task_folder(&self, task: SliceTaskId) -> PathBuf {
        self.slice_folder(task.slice).join("tasks").join(task.short())
    }

    /// Returns the path of a milestone's artifact of this kind.
    pub fn milestone_file(&self, milestone: MilestoneId, kind: Kind) -> PathBuf {
        self.milestone_folder(milestone).join(format!("{milestone}-{}", kind.spec().file))
    }

    /// Returns the path of a slice's artifact of this kind.
    pub fn slice_file(&self, slice: SliceId, kind: Kind) -> PathBuf {
        let file = kind.spec().file;
        let name = if kind == Kind::Todo { file.to_owned() } else { format!("{}-{file}", slice.short()) };
        self.slice_folder(slice).join(name)
    }

    /// Returns the path of a task's artifact of this kind.
    pub fn task_file(&self, task: SliceTaskId, kind: Kind) -> PathBuf {
        self.task_folder(task).join(format!("{}-{}", task.short(), kind.spec().file))
    }

    /// Returns the milestones, in order.
    ///
    /// # Errors
    ///
    /// Errors of the file system; [`Damaged`](ProjectErrorKind::Damaged) for a link or a file in place of a folder.
    pub fn milestones(&self) -> Result<Vec<MilestoneId>, ProjectError> {
        self.named(&self.milestones_folder(), |name| name.parse().ok())
    }

    /// Returns the slices of a milestone, in order.
    ///
    /// # Errors
    ///
    /// As [`Self::milestones`].
    pub fn slices(&self, milestone: MilestoneId) -> Result<Vec<SliceId>, ProjectError> {
        let folder = self.milestone_folder(milestone).join("slices");
        self.named(&folder, |name| SliceId::below(milestone, name))
    }

    /// Returns the tasks of a slice that have a folder, in order.
    ///
    /// # Errors
    ///
    /// As [`Self::milestones`].
    pub fn tasks(&self, slice: SliceId) -> Result<Vec<SliceTaskId>, ProjectError> {
        let folder = self.slice_folder(slice).join("tasks");
        self.named(&folder, |name| SliceTaskId::below(slice, name))
    }

    /// Reads an artifact. `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Damaged`](ProjectErrorKind::Damaged) for a link, a file that is too large or not UTF-8; errors of the
    /// file system.
    pub fn read(&self, path: &Path, kind: Kind) -> Result<Option<Artifact>, ProjectError> {
        self.guard(path)?;
        let Some(bytes) = read_bytes(path)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|error| {
            ProjectError::damaged(path, format_args!("byte {} is no UTF-8", error.utf8_error().valid_up_to()))
        })?;
        Ok(Some(Artifact::parse(kind, text)))
    }

    /// Like [`Self::read`], but fails for a missing artifact.
    pub(super) fn existing(&self, path: &Path, kind: Kind) -> Result<Artifact, ProjectError> {
        self.read(path, kind)?.ok_or_else(|| {
            let message = format!("there is no {path:?}");
            let instead = match kind.spec().owner {
                Owner::Task => "write its slice's plan, then call `nexus artifact scaffold`",
                _ => "create it with `nexus artifact new`, or write it by hand",
            };
            ProjectError::unknown(message, instead)
        })
    }

    /// Replaces an artifact in one step. The caller must own the lock.
    pub(super) fn write(&self, path: &Path, text: &str) -> Result<(), ProjectError> {
        self.guard(path)?;
        check_size(path, text.len())?;
        file::replace(path, text.as_bytes())
    }

    /// Locks the tree for changes, and creates it if it does not exist.
    pub(super) fn lock(&self) -> Result<FolderLock, ProjectError> {
        self.guard(&self.folder())?;
        file::make_folder(&self.folder())?;
        let lock = FolderLock::take(&self.folder().join(LOCK), Patience::default())?;
        // If this fails, git only shows the lock and unfinished files.
        let _ = file::ignore(&self.folder(), &IGNORED);
        Ok(lock)
    }

    /// Fails for a path below the tree that leads through a link.
    pub(super) fn guard(&self, path: &Path) -> Result<(), ProjectError> {
        let within = path
            .strip_prefix(&self.root)
            .map_err(|_| ProjectError::damaged(path, "it is not in the project"))?;
        let mut above = self.root.clone();
        for name in within {
            above.push(name);
            match fs::symlink_metadata(&above) {
                Ok(found) if found.is_symlink() => return Err(ProjectError::damaged(&above, "it is a link")),
                Ok(_) => {}
                // Nothing exists below a missing folder, so no link can follow.
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(ProjectError::unusable(&above, &error)),
            }
        }
        Ok(())
    }

    /// Returns the ids of the subfolders of a folder, in order. Skips names that `named` does not accept.
    fn named<T: Ord>(
        &self,
        folder: &Path,
        named: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ProjectError> {
        self.guard(folder)?;
        let mut found = Vec::new();
        for path in entries(folder)? {
            let Some(id) = path.file_name().and_then(|name| name.to_str()).and_then(&named) else { continue };
            // `symlink_metadata` does not follow links, so a link to a folder is an error, too.
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            if !is_folder {
                return Err(ProjectError::damaged(&path, "it is no folder"));
            }
            found.push(id);
        }
        found.sort();
        Ok(found)
    }
}

/// Returns the content of a folder, sorted by name. Empty if the folder does not exist.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, ProjectError> {
    let failed = |error| ProjectError::unusable(folder, &error);
    let read = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    };
    let mut paths =
        read.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

pub(super) fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>, ProjectError> {
    nexus_files::read_bounded(path, MOST_BYTES).map_err(|error| ProjectError::unusable(path, &error))
}

/// Fails for a size that could not be read again.
pub(super) fn check_size(path: &Path, bytes: usize) -> Result<(), ProjectError> {
    if bytes as u64 <= MOST_BYTES {
        return Ok(());
    }
    let message = format!("{path:?} would have {bytes} bytes, more than {MOST_BYTES}");
    Err(ProjectError::new(
        ProjectErrorKind::WrongState,
        message,
        "move the old file away and start a new one",
    ))
}
