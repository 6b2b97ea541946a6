//! Snapshots of a person's own folder, with exactly its bytes: nothing of the repository around it is changed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, ErrorKind},
    os::{fd::OwnedFd, unix::ffi::OsStrExt as _, unix::fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::{
    Git, Project, TreeError, TreeErrorKind, TreeId, TreeLimits, TreeReading,
    blobs::BlobWriter,
    handle,
    refusal::to_path,
    repo::{self, EXECUTABLE, FILE, GitEntries, GitEntry, LINK, Repo, Scratch},
    text::PathText,
    uncommitted::copy_index,
};

/// Maximum number of paths of a snapshot that it does not cover. Source: our own bound on the size of the file that lists them.
const MAX_UNCOVERED: usize = 50_000;

/// Permission bits of the owner, the group and others.
const PERMISSIONS: u32 = 0o777;
/// Permission bits of the group and others.
const NOT_OWNER: u32 = 0o077;
/// Permission bits of others.
const OTHERS: u32 = 0o007;

/// A recorded state of a folder.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FolderSnapshot {
    pub(super) tree: TreeId,
    /// Paths that exist but are not recorded: ignored ones, large files, pipes and other repositories. A folder stands for everything below
    /// it.
    uncovered: BTreeSet<String>,
    /// Permissions of files that others cannot read.
    modes: BTreeMap<String, u32>,
}

impl FolderSnapshot {
    /// Returns true if the snapshot leaves out a path, although a file may exist there.
    pub(super) fn leaves_out(&self, path: &[u8]) -> bool {
        let is_left_out = |path: &[u8]| self.uncovered.contains(&key(path));
        is_left_out(path) || repo::beginnings(path).any(is_left_out)
    }

    /// Sets the permissions of a file to those in another snapshot.
    pub(super) fn copy_mode(&mut self, source: &Self, path: &[u8]) {
        match source.mode(path) {
            Some(mode) => self.modes.insert(key(path), mode),
            None => self.modes.remove(&key(path)),
        };
    }

    /// Returns the permissions of a file that others could not read.
    pub(super) fn mode(&self, path: &[u8]) -> Option<u32> {
        self.modes.get(&key(path)).copied()
    }
}

/// Returns the text that stands for a path in a file of Nexus.
fn key(path: &[u8]) -> String {
    PathText::from(to_path(path)).into()
}

/// A folder inside the checkout of a person's repository.
#[derive(Clone, Debug)]
pub(super) struct CheckedOutFolder {
    project: Project,
    folder: PathBuf,
    /// Path of the folder from the top of the checkout. Empty for the top.
    prefix: Vec<u8>,
}

impl CheckedOutFolder {
    /// Finds the repository around a folder.
    pub(super) fn find(folder: &Path) -> Result<Self, TreeError> {
        let folder =
            folder.canonicalize().map_err(|error| TreeError::from_io(folder, "cannot be opened", error))?;
        let none = || {
            let message =
                format!("{folder:?} is not in the checkout of a git repository: `git init` makes it one");
            TreeError::new(TreeErrorKind::NotAProject, message)
        };
        // `.git` is a file in a linked checkout and in a submodule.
        let top = folder.ancestors().find(|above| above.join(".git").exists()).ok_or_else(none)?;
        let project = Project::find(top)?;
        if project.checkout().is_none() {
            return Err(none());
        }
        let prefix = folder.strip_prefix(project.path()).map_err(|_| none())?;
        let mut prefix = prefix.as_os_str().as_bytes().to_vec();
        if !prefix.is_empty() {
            prefix.push(b'/');
        }
        Ok(Self { project, folder, prefix })
    }

    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    pub(super) fn open(&self) -> Result<OwnedFd, TreeError> {
        handle::open_folder(&self.folder)
            .map_err(|error| TreeError::from_io(&self.folder, "cannot be opened", error))
    }

    /// Returns the paths of the excluded folders that are below this folder.
    ///
    /// # Errors
    ///
    /// [`NotAProject`](TreeErrorKind::NotAProject) if this folder is in an excluded one.
    pub(super) fn excluded_below(&self, excluded: &[PathBuf]) -> Result<BTreeSet<Vec<u8>>, TreeError> {
        let mut below = BTreeSet::new();
        for excluded in excluded {
            // A folder that does not exist has no files.
            let Ok(excluded) = excluded.canonicalize() else { continue };
            if self.folder.starts_with(&excluded) {
                let message = format!(
                    "{:?} is in {excluded:?}, which no snapshot covers: use another working folder",
                    self.folder
                );
                return Err(TreeError::new(TreeErrorKind::NotAProject, message));
            }
            if let Ok(path) = excluded.strip_prefix(&self.folder) {
                below.insert(path.as_os_str().as_bytes().to_vec());
            }
        }
        Ok(below)
    }

    /// Records the folder: the files that git tracks or does not ignore, and the files of `also`, ignored or not. Excluded folders are
    /// left out of both.
    pub(super) fn record(
        &self,
        repo: &Repo,
        also: impl IntoIterator<Item = Vec<u8>>,
        excluded: &[PathBuf],
        limits: &TreeLimits,
    ) -> Result<FolderSnapshot, TreeError> {
        let excluded = self.excluded_below(excluded)?;
        let mut listing = self.listing(repo)?;
        listing.paths.extend(also);
        listing.paths.retain(|path| {
            !excluded.contains(path) && !repo::beginnings(path).any(|above| excluded.contains(above))
        });
        // An excluded folder counts as left out, so that an undo never touches it.
        listing.left_out.extend(excluded);
        let mut recording = Recording {
            root: self.open()?,
            writer: BlobWriter::start(repo)?,
            modes: BTreeMap::new(),
            uncovered: listing.left_out,
            reading: TreeReading::default(),
            entries: Vec::new(),
            umask_of_others: umask_of_others(),
        };
        let paths = listing.paths;
        if paths.len() > limits.files {
            let message =
                format!("{:?} has {} files: the limit is {}", self.folder, paths.len(), limits.files);
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        for path in paths {
            recording.add(path, limits)?;
        }
        recording.finish(repo)
    }

    /// Lists the files of the folder by git's rules, over a copy of the person's index.
    fn listing(&self, repo: &Repo) -> Result<Listing, TreeError> {
        let none =
            || TreeError::new(TreeErrorKind::NotAProject, format!("{:?} has no repository", self.folder));
        let person = self.project.repository().ok_or_else(none)?;
        let scratch = repo.scratch()?;
        let index = person.git_dir().join("index");
        // A pipe of this name would block.
        if index.is_file() {
            copy_index(&index, &scratch.join("index"))
                .map_err(|error| TreeError::from_io(&index, "cannot be read", error))?;
        }
        let _shared = SharedIndexes::copy(person.git_dir(), repo.path()).map_err(|error| {
            TreeError::from_io(person.git_dir(), "has an index that cannot be read", error)
        })?;
        let mut excludes = vec![person.common_dir().join("info/exclude")];
        excludes.extend(person.user_ignore(repo.git())?);
        excludes.retain(|file| file.is_file());
        let mut listing = Listing::default();
        let tracked_and_new = self.list(repo, &scratch, &excludes, &["--cached", "--others"])?;
        let ignored = self.list(repo, &scratch, &excludes, &["--others", "--ignored", "--directory"])?;
        for path in repo::records(&tracked_and_new).filter_map(|path| path.strip_prefix(&*self.prefix)) {
            // A repository in the folder has a trailing slash.
            match path.strip_suffix(b"/") {
                Some(folder) => listing.left_out.insert(folder.to_vec()),
                None => listing.paths.insert(path.to_vec()),
            };
        }
        for path in repo::records(&ignored).filter_map(|path| path.strip_prefix(&*self.prefix)) {
            let path = path.strip_suffix(b"/").unwrap_or(path);
            listing.left_out.insert(path.to_vec());
        }
        Ok(listing)
    }

    fn list(
        &self,
        repo: &Repo,
        scratch: &Scratch,
        excludes: &[PathBuf],
        which: &[&str],
    ) -> Result<Vec<u8>, TreeError> {
        let command = repo.command("ls-files").index(&scratch.join("index")).work_tree(self.project.path());
        let mut command = command.arg("-z").args(which).arg("--exclude-per-directory=.gitignore");
        for file in excludes {
            command = command.path_option("--exclude-from=", file);
        }
        let prefix = self.prefix.strip_suffix(b"/");
        if let Some(prefix) = prefix {
            command = command.arg("--").arg(repo::os(&[b":(literal)", prefix].concat()));
        }
        command.run(b"")
    }
}

/// Copies of the files that a split index needs. Git looks for them in the folder of the repository that it uses. Dropping it removes
/// the copies.
#[derive(Debug, Default)]
struct SharedIndexes(Vec<PathBuf>);

impl SharedIndexes {
    fn copy(from: &Path, to: &Path) -> io::Result<Self> {
        let mut copies = Self::default();
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let is_shared = entry.file_name().as_bytes().starts_with(b"sharedindex.");
            if is_shared && entry.file_type()?.is_file() {
                let copy = to.join(entry.file_name());
                copies.0.push(copy.clone());
                fs::copy(entry.path(), copy)?;
            }
        }
        Ok(copies)
    }
}

impl Drop for SharedIndexes {
    fn drop(&mut self) {
        for copy in &self.0 {
            // Ignore an error: the next snapshot replaces a copy that stays.
            let _ = fs::remove_file(copy);
        }
    }
}

/// Paths below a folder.
#[derive(Debug, Default)]
struct Listing {
    paths: BTreeSet<Vec<u8>>,
    left_out: BTreeSet<Vec<u8>>,
}

/// A snapshot in the making.
struct Recording {
    root: OwnedFd,
    writer: BlobWriter,
    entries: Vec<(Vec<u8>, u32)>,
    uncovered: BTreeSet<Vec<u8>>,
    modes: BTreeMap<String, u32>,
    reading: TreeReading,
    umask_of_others: u32,
}

impl Recording {
    /// Adds a file or a link. A missing one is not in the snapshot.
    fn add(&mut self, path: Vec<u8>, limits: &TreeLimits) -> Result<(), TreeError> {
        let failed = |error| TreeError::from_io(&to_path(&path), "cannot be read", error);
        let found = handle::open_parent(&self.root, &path)
            .and_then(|(parent, name)| Ok((handle::stat(&parent, name)?, parent, name)));
        let (stat, parent, name) = match found {
            Ok(found) => found,
            // Below a link there is nothing of this folder.
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.uncovered.insert(path);
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        match handle::kind(&stat) {
            FileType::Symlink => {
                let target = handle::read_link(&parent, name).map_err(failed)?;
                self.writer.bytes(&target)?;
                self.uncovered.remove(&path);
                self.entries.push((path, LINK));
            }
            FileType::RegularFile if size <= limits.file_bytes => {
                let file: File = match handle::open_file_at(&parent, name) {
                    Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                        self.uncovered.insert(path);
                        return Ok(());
                    }
                    opened => opened.map_err(failed)?,
                };
                let mode = file.metadata().map_err(failed)?.permissions().mode() & PERMISSIONS;
                self.reading.add(&path, size, limits)?;
                self.writer.file(&path, &file)?;
                let is_narrower = mode & OTHERS == 0 && self.umask_of_others != OTHERS;
                if mode & NOT_OWNER == 0 || is_narrower {
                    self.modes.insert(key(&path), mode);
                }
                self.uncovered.remove(&path);
                self.entries.push((path, if mode & 0o100 == 0 { FILE } else { EXECUTABLE }));
            }
            // A folder of files that are recorded by their own paths, unless it is another repository.
            FileType::Directory => {
                let folder = handle::open_folder_at(&parent, name, false);
                if folder.and_then(|folder| handle::stat(&folder, b".git")).is_ok() {
                    self.uncovered.insert(path);
                }
            }
            _ => {
                self.uncovered.insert(path);
            }
        }
        Ok(())
    }

    fn finish(self, repo: &Repo) -> Result<FolderSnapshot, TreeError> {
        if self.uncovered.len() > MAX_UNCOVERED {
            let message = format!(
                "{} ignored paths are in the folder: the limit is {MAX_UNCOVERED}",
                self.uncovered.len()
            );
            return Err(TreeError::new(TreeErrorKind::TooLarge, message));
        }
        let ids = self.writer.finish()?;
        let entries: GitEntries = self
            .entries
            .into_iter()
            .zip(ids)
            .map(|((path, mode), id)| (path, GitEntry { mode, id }))
            .collect();
        let tree = repo.write_tree(&entries)?;
        Ok(FolderSnapshot {
            tree,
            uncovered: self.uncovered.iter().map(|path| key(path)).collect(),
            modes: self.modes,
        })
    }
}

/// Returns true if nothing of the folder is at a path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Returns the permissions of others that new files do not get. Source: proc_pid_status(5).
fn umask_of_others() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap_or_default().trim();
    u32::from_str_radix(mask, 8).unwrap_or_default() & OTHERS
}

/// Returns a git that does not wait long for a hostile folder.
pub(super) fn bounded(git: &Git) -> Git {
    git.clone().with_time_limit(std::time::Duration::from_secs(60))
}
