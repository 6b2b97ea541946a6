//! Copies of trees in which programs run: prepared once for each tree, and never shared by two runs.
//!
//! | copy | of | lives |
//! | --- | --- | --- |
//! | prepared | a tree, after its setup commands ran; nothing else ever runs in it | until others need the room |
//! | for tests | a prepared copy, kept with the test's build outputs for the next run of the same tree, as far as that run may have them | until others need the room |
//! | scratch | a prepared copy, for one run | for the run |
//!
//! Copies are keyed by the id of the tree, so the build outputs of one tree never reach another. Neither time stamps nor a program that
//! plants files into the outputs can carry content of one tree into the tests of another.
//!
//! Tests that judge work begin on a copy in which the agent that did the work ran nothing. Otherwise its run could leave an ignored file
//! that lets the next run pass. Only the folders that the settings call caches are carried over.
//!
//! On disk the copies lie in a folder that one process at a time locks, with the operating system's lock. The next owner of the lock
//! removes the unfinished copies of a killed process.

use std::{
    collections::HashMap,
    fs::{self, File, FileTimes, OpenOptions},
    io,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use nexus_core::{CancelToken, harness::try_blocking};
use nexus_files::{FileLock, make_private_folder};
use nexus_process::private_home::remove_tree;
use nexus_trees::{Tree, TreeId};
use nexus_work::WorkspaceId;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex as AsyncMutex, OnceCell, OwnedMutexGuard};

use super::{
    error::CheckError,
    keep::{self, ShownPath},
};
use crate::settings::SandboxSettings;

/// Number of folders to try. Each is for one host that runs programs of the same task; one host is the normal case.
const ROOMS: usize = 16;
/// Maximum number of prepared copies to retain. A step uses five trees: three for a probe, and two for tests where test files changed.
const MOST_PREPARED: usize = 8;
/// Maximum number of copies for tests to retain.
const MOST_FOR_TESTS: usize = 4;
/// The folders of a room.
const PARTS: [&str; 3] = ["scratch", "tests", "prepared"];
/// Marker file of a complete copy.
const READY: &str = "ready.json";
/// Largest marker file, in bytes.
const READY_BYTES: u64 = 1 << 20;

/// The copies of one task. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    tree: Tree,
    folder: PathBuf,
    /// Setup commands. A copy that another configuration prepared with other commands does not count as prepared.
    setup: Vec<Vec<String>>,
    /// Folders that tests fill and that clean copies take over.
    caches: Vec<PathBuf>,
    shared: Arc<CopyPool>,
}

/// Copies that clones share.
#[derive(Debug, Default)]
struct CopyPool {
    room: OnceCell<LockedFolder>,
    prepared: Mutex<HashMap<TreeId, CopySlot>>,
    idle: Mutex<Vec<TestCopy>>,
}

/// Slot of one tree's prepared copy.
#[derive(Debug, Default)]
struct CopySlot {
    cell: Arc<AsyncMutex<Option<Arc<PreparedCopy>>>>,
    /// Counter of the last request: the higher, the more recent.
    used: u64,
}

/// Folder that this process has locked.
#[derive(Debug)]
struct LockedFolder {
    path: PathBuf,
    /// Lock of the folder, for as long as this process uses it.
    _lock: FileLock,
}

/// Complete copies of earlier processes, which the same setup commands prepared. The copies that were completed first
/// come first.
#[derive(Debug, Default)]
struct EarlierCopies {
    prepared: Vec<PreparedCopy>,
    /// Paths and trees of the copies for tests. Not stored as [`TestCopy`], because dropping one would remove its
    /// folder, even if this process does not use the copies.
    for_tests: Vec<(PathBuf, TreeId)>,
}

/// Marker that a copy is whole.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CopyMarker {
    tree: TreeId,
    setup: Vec<Vec<String>>,
}

/// Copy of a tree that is ready for use. Nothing runs in it.
#[derive(Debug)]
pub(super) struct PreparedCopy {
    path: PathBuf,
    pub(super) tree: TreeId,
}

impl PreparedCopy {
    /// The files of the tree.
    pub(super) fn files(&self) -> PathBuf {
        self.path.join("tree")
    }
}

/// Folder with a copy and an empty home, for one run at a time. It is removed on drop.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// The files of the tree.
    pub(super) fn files(&self) -> PathBuf {
        self.path.join("tree")
    }

    /// An empty folder beside them.
    pub(super) fn home(&self) -> PathBuf {
        self.path.join("home")
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        remove_later(std::mem::take(&mut self.path));
    }
}

/// Build outputs that are present in a test copy when the tests begin. Earlier runs of the same tree left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Only the caches that the settings name, in `sandbox.caches`.
    Clean,
    /// Everything that the earlier runs built.
    Built,
}

/// A copy that the tests of one tree run in.
#[derive(Debug)]
pub(super) struct TestCopy {
    pub(super) copy: RunFolder,
    tree: TreeId,
}

/// A prepared copy that is being made.
#[derive(Debug)]
pub(super) struct Unprepared {
    /// The files, as they are in the tree.
    pub(super) copy: RunFolder,
    tree: TreeId,
    cell: OwnedMutexGuard<Option<Arc<PreparedCopy>>>,
}

/// State of a tree's prepared copy.
#[derive(Debug)]
pub(super) enum Preparation {
    Done(Arc<PreparedCopy>),
    /// The caller prepares it, then calls [`Copies::prepared`].
    Needed(Unprepared),
}

impl Copies {
    pub(super) fn new(tree: Tree, folder: PathBuf, settings: &SandboxSettings) -> Self {
        // The service rejects invalid paths when it checks the settings, so this cannot fail here.
        let caches = keep::places("sandbox.caches", &settings.caches).unwrap_or_default();
        Self { tree, folder, setup: settings.setup.clone(), caches, shared: Arc::default() }
    }

    /// Returns the prepared copy of a tree, or a fresh copy that the caller has to prepare. Other callers for the same tree wait meanwhile.
    pub(super) async fn prepare(
        &self,
        tree: &TreeId,
        cancel: &CancelToken,
    ) -> Result<Preparation, CheckError> {
        let room = self.room().await?;
        // Release the lock of the map before waiting for the cell, so that callers for other trees do not wait.
        let cell = {
            let mut slots = self.shared.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            let newest = slots.values().map(|slot| slot.used).max().unwrap_or_default();
            let slot = slots.entry(tree.clone()).or_default();
            slot.used = newest + 1;
            Arc::clone(&slot.cell)
        };
        let mut cell = tokio::select! {
            cell = cell.lock_owned() => cell,
            () = cancel.cancelled() => return Err(CheckError::Cancelled),
        };
        if let Some(prepared) = &*cell {
            return Ok(Preparation::Done(Arc::clone(prepared)));
        }
        // The blocking thread outlives a dropped future, so the drop has to cancel its git command.
        let stop = CancelOnDrop(cancel.child());
        let (repository, id, token) = (self.tree.clone(), tree.clone(), stop.0.clone());
        let (place, setup) = (room.join("prepared").join(tree.as_str()), self.setup.clone());
        let new = room.join("scratch");
        let made = try_blocking(move || {
            // The copy may be complete, although the future that prepared it was dropped.
            if read_ready(&place).is_some_and(|ready| ready == (CopyMarker { tree: id.clone(), setup })) {
                return Ok::<_, CheckError>(Err(PreparedCopy { path: place, tree: id }));
            }
            // A folder without a valid marker is the rest of a failed removal.
            remove(&place)?;
            let copy = new_copy(&new)?;
            repository.with_cancel(token).check_out(&id, copy.files())?;
            Ok(Ok(copy))
        });
        match made.await? {
            Ok(copy) => Ok(Preparation::Needed(Unprepared { copy, tree: tree.clone(), cell })),
            Err(found) => {
                let found = Arc::new(found);
                *cell = Some(Arc::clone(&found));
                Ok(Preparation::Done(found))
            }
        }
    }

    /// Stores a copy that the caller has prepared, for all callers that need this tree.
    pub(super) async fn prepared(&self, unprepared: Unprepared) -> Result<Arc<PreparedCopy>, CheckError> {
        let room = self.room().await?;
        let Unprepared { mut copy, tree, mut cell } = unprepared;
        let place = room.join("prepared").join(tree.as_str());
        let ready = CopyMarker { tree: tree.clone(), setup: self.setup.clone() };
        let path = place.clone();
        try_blocking(move || {
            // Write the marker before the rename, so that every folder in `prepared` is complete when it appears
            // there.
            write_ready(&copy.path, &ready)?;
            private(path.parent().unwrap_or(&path))?;
            fs::rename(&copy.path, &path).map_err(|error| CheckError::from_io(&path, error))?;
            // The folder was renamed, so the drop must not remove it.
            drop(std::mem::take(&mut copy.path));
            Ok::<_, CheckError>(())
        })
        .await?;
        let prepared = Arc::new(PreparedCopy { path: place, tree });
        *cell = Some(Arc::clone(&prepared));
        // Release the cell first: `make_room_for_prepared` skips locked cells.
        drop(cell);
        self.make_room_for_prepared().await;
        Ok(prepared)
    }

    /// A copy for one run.
    pub(super) async fn scratch(
        &self,
        of: &Arc<PreparedCopy>,
        cancel: &CancelToken,
    ) -> Result<RunFolder, CheckError> {
        let room = self.room().await?;
        let (of, stop) = (Arc::clone(of), CancelOnDrop(cancel.child()));
        let (token, place) = (stop.0.clone(), room.join("scratch"));
        try_blocking(move || {
            let copy = new_copy(&place)?;
            copy_tree(&of.files(), &copy.files(), &token)?;
            Ok(copy)
        })
        .await
    }

    /// Returns a copy for tests: every file as it is in the tree, with the build outputs of the last tests on this tree as far as
    /// `beginning` allows.
    pub(super) async fn for_tests(
        &self,
        of: &Arc<PreparedCopy>,
        beginning: Beginning,
        cancel: &CancelToken,
    ) -> Result<TestCopy, CheckError> {
        let room = self.room().await?;
        // A clean beginning takes only the caches from an earlier copy, so without caches no earlier copy is needed.
        let is_wanted = beginning == Beginning::Built || !self.caches.is_empty();
        let found = if !is_wanted {
            None
        } else {
            let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let at = idle.iter().rposition(|copy| copy.tree == of.tree);
            at.map(|at| idle.remove(at))
        };
        let (of, stop) = (Arc::clone(of), CancelOnDrop(cancel.child()));
        let (token, place, repository) = (stop.0.clone(), room.join("tests"), self.tree.clone());
        let caches = self.caches.clone();
        try_blocking(move || {
            let earlier = match (found, beginning) {
                (Some(found), Beginning::Built) => {
                    match refresh(&found, &repository.clone().with_cancel(token.clone())) {
                        Err(CheckError::Cancelled) => return Err(CheckError::Cancelled),
                        // A program made the folder inaccessible, or filled it beyond the limits: use a fresh copy.
                        Err(error) => tracing::debug!(%error, "a copy for tests cannot be reused"),
                        Ok(()) => return Ok(found),
                    }
                    None
                }
                (earlier, _) => earlier,
            };
            let copy = new_copy(&place)?;
            copy_tree(&of.files(), &copy.files(), &token)?;
            if let Some(earlier) = earlier {
                take_over(&earlier.copy.files(), &copy.files(), &caches, &repository.paths(&of.tree)?)?;
            }
            Ok(TestCopy { copy, tree: of.tree.clone() })
        })
        .await
    }

    /// Stores a copy whose tests ran to their end, for the next run of the same tree.
    pub(super) async fn give_back(&self, copy: TestCopy) {
        let ready = CopyMarker { tree: copy.tree.clone(), setup: self.setup.clone() };
        let kept = try_blocking(move || {
            remove(&copy.copy.home())?;
            // Write the marker last: a process that is killed earlier leaves a copy that the next owner removes.
            write_ready(&copy.copy.path, &ready)?;
            Ok::<_, CheckError>(copy)
        });
        match kept.await {
            Ok(copy) => {
                let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push(copy);
                let too_many = idle.len().saturating_sub(MOST_FOR_TESTS);
                // Dropping a copy removes its folder on another thread.
                idle.drain(..too_many);
            }
            Err(error) => tracing::debug!(%error, "a copy for tests is not stored for reuse"),
        }
    }

    /// Removes the least recently requested prepared copies, except those in use.
    async fn make_room_for_prepared(&self) {
        let mut victims = Vec::new();
        {
            let slots = self.shared.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all: Vec<_> = slots.values().map(|slot| (slot.used, Arc::clone(&slot.cell))).collect();
            all.sort_by_key(|(used, _)| *used);
            let mut free: Vec<_> =
                // A cell that is locked is being prepared: it stays.
                all.into_iter().filter_map(|(_, cell)| cell.try_lock_owned().ok()).collect();
            free.retain(|cell| cell.is_some());
            let too_many = free.len().saturating_sub(MOST_PREPARED);
            victims.extend(
                free.into_iter()
                    .take(too_many)
                    // A run that still copies files from the folder has a second reference.
                    .filter(|cell| cell.as_ref().is_some_and(|prepared| Arc::strong_count(prepared) == 1)),
            );
        }
        for mut victim in victims {
            let Some(prepared) = victim.take() else { continue };
            // The slot stays locked until the folder is gone, so no caller can prepare the same tree into it meanwhile.
            let removed = try_blocking(move || {
                let removed = remove(&prepared.path);
                drop(victim);
                removed
            });
            if let Err(error) = removed.await {
                tracing::warn!(%error, "a copy of a tree could not be removed");
            }
        }
    }

    /// Returns the folder that this process has locked. The first call locks it.
    async fn room(&self) -> Result<&Path, CheckError> {
        let open = || async {
            let (folder, setup) = (self.folder.clone(), self.setup.clone());
            let (room, earlier) = try_blocking(move || open_room(&folder, &setup)).await?;
            let EarlierCopies { prepared, for_tests } = earlier;
            // Registered copies count for the limit. They are older than all that this process requests.
            let slots = (1..).zip(prepared).map(|(used, copy)| {
                let tree = copy.tree.clone();
                (tree, CopySlot { cell: Arc::new(AsyncMutex::new(Some(Arc::new(copy)))), used })
            });
            self.shared.prepared.lock().unwrap_or_else(PoisonError::into_inner).extend(slots);
            let idle = for_tests.into_iter().map(|(path, tree)| TestCopy { copy: RunFolder { path }, tree });
            self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(idle);
            Ok::<_, CheckError>(room)
        };
        Ok(&self.shared.room.get_or_try_init(open).await?.path)
    }
}

impl Drop for CopyPool {
    fn drop(&mut self) {
        // Complete copies stay for the next host. An empty path makes the drop of `RunFolder` a no-op.
        for copy in self.idle.get_mut().unwrap_or_else(PoisonError::into_inner) {
            copy.copy.path = PathBuf::new();
        }
    }
}

/// Cancels the work in another thread when the future that waits for it is dropped.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Links the kept paths of the project into a copy without a sandbox. Files that the tree itself has there stay.
pub(super) fn link_kept(files: &Path, kept: &[ShownPath]) -> Result<(), CheckError> {
    for kept in kept {
        let place = files.join(&kept.place);
        let failed = |error| CheckError::from_io(&place, error);
        let above = kept.place.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let is_folder = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let mut missing: Vec<PathBuf> =
            above.map(|above| files.join(above)).filter(|path| !is_folder(path.clone())).collect();
        // Create the topmost folder first. If a file or a link has one of these paths, leave it and link nothing.
        missing.reverse();
        if missing.iter().any(|path| path.symlink_metadata().is_ok()) || place.symlink_metadata().is_ok() {
            continue;
        }
        for folder in missing {
            fs::create_dir(&folder).map_err(|error| CheckError::from_io(&folder, error))?;
        }
        symlink(&kept.outside, &place).map_err(failed)?;
    }
    Ok(())
}

/// Restores the files of the tree in a copy that tests have used. Build outputs stay.
fn refresh(found: &TestCopy, tree: &Tree) -> Result<(), CheckError> {
    // Remove the mark first, so that a copy that is only half restored never counts as complete.
    remove(&found.copy.path.join(READY))?;
    remove(&found.copy.home())?;
    private(&found.copy.home())?;
    Ok(tree.refresh(&found.tree, found.copy.files())?)
}

/// Moves the caches of an earlier run into a copy in which nothing ran yet. Caches that contain files of the tree are skipped. No link is
/// followed, since programs wrote these folders.
fn take_over(earlier: &Path, files: &Path, caches: &[PathBuf], paths: &[PathBuf]) -> Result<(), CheckError> {
    let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    for cache in caches.iter().filter(|cache| !paths.iter().any(|path| path.starts_with(cache))) {
        let above: Vec<&Path> =
            cache.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        let is_there =
            is_folder(&earlier.join(cache)) && above.iter().all(|above| is_folder(&earlier.join(above)));
        if !is_there {
            continue;
        }
        for folder in above.into_iter().rev().map(|above| files.join(above)) {
            if folder.symlink_metadata().is_err() {
                fs::create_dir(&folder).map_err(|error| CheckError::from_io(&folder, error))?;
            }
        }
        // The tree may have a file or a link in this path, and nothing may be written through it.
        if cache.parent().is_some_and(|above| !is_folder(&files.join(above))) {
            continue;
        }
        let target = files.join(cache);
        // The setup commands may have made this folder. The cache of the earlier run began with their output, so it replaces the folder.
        remove(&target)?;
        fs::rename(earlier.join(cache), &target).map_err(|error| CheckError::from_io(&target, error))?;
    }
    Ok(())
}

/// Locks the first folder that no other process has locked. Removes the copies in it that are unfinished, or that other setup commands
/// prepared, and returns the rest. Also empties the folders of killed processes.
fn open_room(folder: &Path, setup: &[Vec<String>]) -> Result<(LockedFolder, EarlierCopies), CheckError> {
    for number in 0..ROOMS {
        let path = folder.join(number.to_string());
        private(&path)?;
        let Some(held) = lock(&path)? else { continue };
        let mut earlier = EarlierCopies::default();
        for below in PARTS {
            private(&path.join(below))?;
            let mut complete = Vec::new();
            for found in names(&path.join(below))? {
                let ready = read_ready(&found).filter(|ready| ready.setup == setup);
                // The marker is written last, so its time is the time of completion.
                let completed = found.join(READY).symlink_metadata().and_then(|about| about.modified());
                match (below, ready, completed) {
                    ("tests" | "prepared", Some(ready), Ok(completed)) => {
                        complete.push((completed, found, ready.tree));
                    }
                    _ => remove(&found)?,
                }
            }
            complete.sort_unstable_by_key(|(completed, ..)| *completed);
            for (_, path, tree) in complete {
                match below == "tests" {
                    true => earlier.for_tests.push((path, tree)),
                    // `prepare` looks for the copy at this path only.
                    false if path.ends_with(tree.as_str()) => {
                        earlier.prepared.push(PreparedCopy { path, tree });
                    }
                    false => remove(&path)?,
                }
            }
        }
        for other in (0..ROOMS).filter(|other| *other != number).map(|other| folder.join(other.to_string())) {
            if !other.is_dir() {
                continue;
            }
            // The lock is free, so the process that owned this folder is gone.
            if let Some(_lock) = lock(&other)? {
                PARTS.iter().try_for_each(|below| remove(&other.join(below)))?;
            }
        }
        return Ok((LockedFolder { path, _lock: held }, earlier));
    }
    let source = io::Error::other("other processes use every folder for copies: end one of them");
    Err(CheckError::from_io(folder, source))
}

/// Locks a room. Returns `None` if another process has it.
fn lock(room: &Path) -> Result<Option<FileLock>, CheckError> {
    let place = room.join(".lock");
    FileLock::try_lock(&place).map_err(|error| CheckError::from_io(&place, error))
}

fn names(folder: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let failed = |error| CheckError::from_io(folder, error);
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn new_copy(place: &Path) -> Result<RunFolder, CheckError> {
    // Concurrent runs share the folder, and a random name needs no lock between them.
    let path = place.join(WorkspaceId::random().as_str());
    let copy = RunFolder { path };
    for folder in [&copy.path, &copy.home(), &copy.files()] {
        private(folder)?;
    }
    Ok(copy)
}

fn private(folder: &Path) -> Result<(), CheckError> {
    own_folder(folder).map_err(|error| CheckError::from_io(folder, error))
}

/// Creates an owner-only folder, unless it exists. Rejects a link, because files would be removed or written at its
/// target.
pub(super) fn own_folder(folder: &Path) -> io::Result<()> {
    if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is not a folder: remove it"));
    }
    make_private_folder(folder)
}

/// Removes a file or folder. A missing one is not an error.
fn remove(path: &Path) -> Result<(), CheckError> {
    remove_tree(path).map_err(|error| CheckError::from_io(path, error))
}

/// Removes a folder on another thread, so that the drop does not block. Without a runtime, removes it on this thread.
fn remove_later(path: PathBuf) {
    if path.as_os_str().is_empty() {
        return;
    }
    let remove = move || {
        if let Err(error) = remove_tree(&path) {
            tracing::warn!(folder = %path.display(), %error, "a copy of a tree could not be removed");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(remove)),
        Err(_) => remove(),
    }
}

fn write_ready(folder: &Path, ready: &CopyMarker) -> Result<(), CheckError> {
    let path = folder.join(READY);
    let bytes = serde_json::to_vec(ready).map_err(|error| CheckError::from_io(&path, error.into()))?;
    fs::write(&path, bytes).map_err(|error| CheckError::from_io(&path, error))
}

/// Reads the marker of a complete copy.
fn read_ready(folder: &Path) -> Option<CopyMarker> {
    let path = folder.join(READY);
    let found = path.symlink_metadata().ok()?;
    // A program without a sandbox can reach the marker, so accept only a small regular file.
    if !found.is_file() || found.len() > READY_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Copies the content of a folder that no program uses: files with their modes and times, folders with their modes, links as links.
/// Pipes, sockets and devices are left out.
fn copy_tree(from: &Path, to: &Path, cancel: &CancelToken) -> Result<(), CheckError> {
    let mut todo = vec![(from.to_owned(), to.to_owned())];
    let mut closed = Vec::new();
    while let Some((from, to)) = todo.pop() {
        let failed = |error| CheckError::from_io(&from, error);
        for entry in fs::read_dir(&from).map_err(failed)? {
            if cancel.is_cancelled() {
                return Err(CheckError::Cancelled);
            }
            let entry = entry.map_err(failed)?;
            let (source, target) = (entry.path(), to.join(entry.file_name()));
            let failed = |error| CheckError::from_io(&target, error);
            let about = entry.metadata().map_err(failed)?;
            // A program may have taken away its owner's access. Nexus runs as that owner, so it can restore the access to read the file.
            let mode = open_to_owner(&source, &about).map_err(failed)?;
            if about.is_dir() {
                fs::create_dir(&target).map_err(failed)?;
                closed.push((target.clone(), mode));
                todo.push((source, target));
            } else if about.is_symlink() {
                let leads_to = fs::read_link(&source).map_err(failed)?;
                symlink(leads_to, &target).map_err(failed)?;
            } else if about.is_file() {
                copy_file(&source, &target, &about, mode).map_err(failed)?;
            }
        }
    }
    // Set the modes of read-only folders last, because nothing can be copied into them afterwards.
    for (folder, mode) in closed.into_iter().rev() {
        fs::set_permissions(&folder, mode).map_err(|error| CheckError::from_io(&folder, error))?;
    }
    Ok(())
}

/// Gives the owner read access to a file or folder without it. Returns the mode that it has now, which every copy gets: the first copy
/// and later ones are then equal.
fn open_to_owner(path: &Path, about: &fs::Metadata) -> io::Result<fs::Permissions> {
    let (needed, given) = if about.is_dir() { (0o500, 0o700) } else { (0o400, 0o400) };
    let mode = about.permissions().mode();
    if !(about.is_dir() || about.is_file()) || mode & needed == needed {
        return Ok(about.permissions());
    }
    let opened = fs::Permissions::from_mode(mode | given);
    fs::set_permissions(path, opened.clone())?;
    Ok(opened)
}

/// Copies a file with its modification time, by which build tools decide what is up to date.
fn copy_file(from: &Path, to: &Path, about: &fs::Metadata, mode: fs::Permissions) -> io::Result<()> {
    // The file's own mode may forbid writing, so it is set after the content is written.
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(mode)?;
    target.set_times(FileTimes::new().set_modified(about.modified()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_copies_have_the_same_modes_as_the_first_one() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir_all(from.join("closed")).unwrap();
        let modes = [("closed/inside", 0o200), ("runs", 0o111), ("plain", 0o640), ("closed", 0o000)];
        for (path, mode) in modes {
            if path != "closed" {
                fs::write(from.join(path), path).unwrap();
            }
            fs::set_permissions(from.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        for copy in ["first", "second"] {
            let to = folder.path().join(copy);
            fs::create_dir(&to).unwrap();
            copy_tree(&from, &to, &CancelToken::new()).unwrap();
            let found =
                modes.map(|(path, _)| to.join(path).symlink_metadata().unwrap().permissions().mode() & 0o777);
            assert_eq!(found, [0o600, 0o511, 0o640, 0o700], "{copy}");
        }
    }
}
