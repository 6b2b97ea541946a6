//! Copies of trees in which programs run: prepared once for each tree, and never shared by two runs.
//!
//! | copy | of | lives |
//! | --- | --- | --- |
//! | prepared | a tree, after the commands that prepare one; nothing else ever runs in it | until others need the room |
//! | for tests | a prepared copy; what tests built in it is there in the next run of the same tree, as far as that run may have it | until others need the room |
//! | scratch | a prepared copy, for one run | for the run |
//!
//! Copies are known by the tree's id, so that what was built of one tree is never there for another: neither time stamps nor a
//! program that plants something into the outputs can bring what belongs to one tree before the tests of another.
//!
//! The tests of those who judge work begin on a copy in which the agent that did the work has run nothing: its run may leave an ignored
//! file by which the next one passes. The folders that the settings call caches are taken over all the same.
//!
//! On the disk they lie in a folder that one process at a time holds, by the operating system's lock. What a process that was
//! killed left half-made in it is removed by the next that holds it.

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

/// How many folders are tried: as many hosts may run programs of one task at once, where one is what is expected.
const ROOMS: usize = 16;
/// How many prepared copies are kept. A step uses five trees: three for a probe, and two for tests where test files changed.
const MOST_PREPARED: usize = 8;
/// How many copies for tests are kept.
const MOST_FOR_TESTS: usize = 4;
/// The folders of a room.
const PARTS: [&str; 3] = ["scratch", "tests", "prepared"];
/// The file that says that a copy is whole.
const READY: &str = "ready.json";
/// The largest such file, in bytes.
const READY_BYTES: u64 = 1 << 20;

/// The copies of one task. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Copies {
    tree: Tree,
    folder: PathBuf,
    /// What prepares a copy, so that one that others prepared in another way is not taken for prepared.
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
    /// The higher, the more recently it was asked for.
    used: u64,
}

/// Folder that this process has locked.
#[derive(Debug)]
struct LockedFolder {
    path: PathBuf,
    /// Locked for as long as the room is held.
    _lock: FileLock,
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

/// What is there of earlier runs of the same tree when tests begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// Nothing but what lies in the caches of the settings.
    Clean,
    /// Everything that they built.
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

/// What is there for a tree.
#[derive(Debug)]
pub(super) enum Preparation {
    Done(Arc<PreparedCopy>),
    /// The caller prepares it, and says so.
    Needed(Unprepared),
}

impl Copies {
    pub(super) fn new(tree: Tree, folder: PathBuf, settings: &SandboxSettings) -> Self {
        // What is no path was refused with the settings.
        let caches = keep::places("sandbox.caches", &settings.caches).unwrap_or_default();
        Self { tree, folder, setup: settings.setup.clone(), caches, shared: Arc::default() }
    }

    /// The prepared copy of a tree, or one that is to be prepared. Others that want the same wait meanwhile.
    pub(super) async fn prepare(
        &self,
        tree: &TreeId,
        cancel: &CancelToken,
    ) -> Result<Preparation, CheckError> {
        let room = self.room().await?;
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
        let stop = CancelOnDrop(cancel.child());
        let (repository, id, token) = (self.tree.clone(), tree.clone(), stop.0.clone());
        let (place, setup) = (room.join("prepared").join(tree.as_str()), self.setup.clone());
        let new = room.join("scratch");
        let made = try_blocking(move || {
            if read_ready(&place).is_some_and(|ready| ready == (CopyMarker { tree: id.clone(), setup })) {
                return Ok::<_, CheckError>(Err(PreparedCopy { path: place, tree: id }));
            }
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

    /// Takes a copy that the caller has prepared, for all who want one of this tree.
    pub(super) async fn prepared(&self, unprepared: Unprepared) -> Result<Arc<PreparedCopy>, CheckError> {
        let room = self.room().await?;
        let Unprepared { mut copy, tree, mut cell } = unprepared;
        let place = room.join("prepared").join(tree.as_str());
        let ready = CopyMarker { tree: tree.clone(), setup: self.setup.clone() };
        let path = place.clone();
        try_blocking(move || {
            write_ready(&copy.path, &ready)?;
            private(path.parent().unwrap_or(&path))?;
            fs::rename(&copy.path, &path).map_err(|error| CheckError::from_io(&path, error))?;
            // It is somewhere else now.
            drop(std::mem::take(&mut copy.path));
            Ok::<_, CheckError>(())
        })
        .await?;
        let prepared = Arc::new(PreparedCopy { path: place, tree });
        *cell = Some(Arc::clone(&prepared));
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

    /// A copy for tests: with what they built when they last ran on this tree, as far as the `beginning` lets it be there, and every
    /// other file as it is in the tree.
    pub(super) async fn for_tests(
        &self,
        of: &Arc<PreparedCopy>,
        beginning: Beginning,
        cancel: &CancelToken,
    ) -> Result<TestCopy, CheckError> {
        let room = self.room().await?;
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
                        // A folder that a program closed, or filled beyond the limits: another is taken.
                        Err(error) => tracing::debug!(%error, "a copy for tests cannot be used again"),
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

    /// Takes a copy back in which tests ran to their end, for the next run of the same tree.
    pub(super) async fn give_back(&self, copy: TestCopy) {
        let ready = CopyMarker { tree: copy.tree.clone(), setup: self.setup.clone() };
        let kept = try_blocking(move || {
            remove(&copy.copy.home())?;
            write_ready(&copy.copy.path, &ready)?;
            Ok::<_, CheckError>(copy)
        });
        match kept.await {
            Ok(copy) => {
                let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push(copy);
                let too_many = idle.len().saturating_sub(MOST_FOR_TESTS);
                // Removed as they are dropped, by another thread.
                idle.drain(..too_many);
            }
            Err(error) => tracing::debug!(%error, "a copy for tests is not kept"),
        }
    }

    /// Removes the prepared copies that were not asked for the longest, but for those that are in use.
    async fn make_room_for_prepared(&self) {
        let mut victims = Vec::new();
        {
            let slots = self.shared.prepared.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all: Vec<_> = slots.values().map(|slot| (slot.used, Arc::clone(&slot.cell))).collect();
            all.sort_by_key(|(used, _)| *used);
            let mut free: Vec<_> =
                all.into_iter().filter_map(|(_, cell)| cell.try_lock_owned().ok()).collect();
            free.retain(|cell| cell.is_some());
            let too_many = free.len().saturating_sub(MOST_PREPARED);
            victims.extend(
                free.into_iter()
                    .take(too_many)
                    .filter(|cell| cell.as_ref().is_some_and(|prepared| Arc::strong_count(prepared) == 1)),
            );
        }
        for mut victim in victims {
            let Some(prepared) = victim.take() else { continue };
            // The place stays locked until it is empty.
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

    /// The folder that this process holds, taken when it is first needed.
    async fn room(&self) -> Result<&Path, CheckError> {
        let open = || async {
            let folder = self.folder.clone();
            let (room, idle) = try_blocking(move || open_room(&folder)).await?;
            let ours = idle.into_iter().filter(|(_, ready)| ready.setup == self.setup);
            let copies = ours.map(|(path, ready)| TestCopy { copy: RunFolder { path }, tree: ready.tree });
            self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(copies);
            Ok::<_, CheckError>(room)
        };
        Ok(&self.shared.room.get_or_try_init(open).await?.path)
    }
}

impl Drop for CopyPool {
    fn drop(&mut self) {
        // What is whole stays for the next host.
        for copy in self.idle.get_mut().unwrap_or_else(PoisonError::into_inner) {
            copy.copy.path = PathBuf::new();
        }
    }
}

/// Cancels what goes on in another thread when the future that waits for it is dropped.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Shows what is kept of the project in a copy without a sandbox: by links. What the tree itself has there stays.
pub(super) fn link_kept(files: &Path, kept: &[ShownPath]) -> Result<(), CheckError> {
    for kept in kept {
        let place = files.join(&kept.place);
        let failed = |error| CheckError::from_io(&place, error);
        let above = kept.place.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        let is_folder = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let mut missing: Vec<PathBuf> =
            above.map(|above| files.join(above)).filter(|path| !is_folder(path.clone())).collect();
        // The topmost first. A file or a link on the way stays, and nothing is shown.
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

/// Makes the copy what it was before the tests ran in it, but for what they built.
fn refresh(found: &TestCopy, tree: &Tree) -> Result<(), CheckError> {
    remove(&found.copy.path.join(READY))?;
    remove(&found.copy.home())?;
    private(&found.copy.home())?;
    Ok(tree.refresh(&found.tree, found.copy.files())?)
}

/// Moves the caches of an earlier run into a copy in which nothing ran yet. What the tree itself has in such a place stays, and no link
/// is followed: programs made what is there.
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
        if cache.parent().is_some_and(|above| !is_folder(&files.join(above))) {
            continue;
        }
        let target = files.join(cache);
        // What the commands that prepare a tree made there is in the cache as well.
        remove(&target)?;
        fs::rename(earlier.join(cache), &target).map_err(|error| CheckError::from_io(&target, error))?;
    }
    Ok(())
}

/// Takes the first folder that no other process holds, and cleans it up, as well as those that others held who were killed. Gives
/// the copies for tests that are in it.
fn open_room(folder: &Path) -> Result<(LockedFolder, Vec<(PathBuf, CopyMarker)>), CheckError> {
    for number in 0..ROOMS {
        let path = folder.join(number.to_string());
        private(&path)?;
        let Some(held) = lock(&path)? else { continue };
        let mut idle = Vec::new();
        for below in PARTS {
            private(&path.join(below))?;
            for found in names(&path.join(below))? {
                match read_ready(&found) {
                    Some(ready) if below == "tests" => idle.push((found, ready)),
                    Some(_) if below == "prepared" => {}
                    _ => remove(&found)?,
                }
            }
        }
        for other in (0..ROOMS).filter(|other| *other != number).map(|other| folder.join(other.to_string())) {
            if !other.is_dir() {
                continue;
            }
            if let Some(_lock) = lock(&other)? {
                PARTS.iter().try_for_each(|below| remove(&other.join(below)))?;
            }
        }
        return Ok((LockedFolder { path, _lock: held }, idle));
    }
    let source = io::Error::other("other processes hold every folder for copies: end one of them");
    Err(CheckError::from_io(folder, source))
}

/// The lock of a room, unless another process has it.
fn lock(room: &Path) -> Result<Option<FileLock>, CheckError> {
    let place = room.join(".lock");
    FileLock::try_lock(&place).map_err(|error| CheckError::from_io(&place, error))
}

fn names(folder: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let failed = |error| CheckError::from_io(folder, error);
    fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path())).collect()
}

fn new_copy(place: &Path) -> Result<RunFolder, CheckError> {
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

/// Makes a folder that only its owner may enter, unless it is there. A link is refused: what is removed or written in it would be
/// somewhere else.
pub(super) fn own_folder(folder: &Path) -> io::Result<()> {
    if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no folder: remove it"));
    }
    make_private_folder(folder)
}

/// Removes a file or folder that may not be there.
fn remove(path: &Path) -> Result<(), CheckError> {
    remove_tree(path).map_err(|error| CheckError::from_io(path, error))
}

/// Removes a folder without keeping whoever drops it waiting, where a runtime has another thread for it.
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

/// What is written down of a copy, if that is whole.
fn read_ready(folder: &Path) -> Option<CopyMarker> {
    let path = folder.join(READY);
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() || found.len() > READY_BYTES {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Copies everything that is in a folder, nothing of which is in use: files with their modes and times, folders with their modes,
/// links as links. Pipes, sockets and devices are left out.
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
            if !about.is_symlink() && about.permissions().mode() & 0o500 != 0o500 {
                // What a program closed to its owner, who is this user.
                open_to_owner(&source, &about).map_err(failed)?;
            }
            if about.is_dir() {
                fs::create_dir(&target).map_err(failed)?;
                closed.push((target.clone(), about.permissions()));
                todo.push((source, target));
            } else if about.is_symlink() {
                let leads_to = fs::read_link(&source).map_err(failed)?;
                symlink(leads_to, &target).map_err(failed)?;
            } else if about.is_file() {
                copy_file(&source, &target, &about).map_err(failed)?;
            }
        }
    }
    // Last, as one that cannot be written takes no file.
    for (folder, mode) in closed.into_iter().rev() {
        fs::set_permissions(&folder, mode).map_err(|error| CheckError::from_io(&folder, error))?;
    }
    Ok(())
}

fn open_to_owner(path: &Path, about: &fs::Metadata) -> io::Result<()> {
    let missing = if about.is_dir() { 0o700 } else { 0o400 };
    let mode = about.permissions().mode();
    match (about.is_dir() || about.is_file()) && mode & missing != missing {
        true => fs::set_permissions(path, fs::Permissions::from_mode(mode | missing)),
        false => Ok(()),
    }
}

/// With the time of its last change, by which build tools know what is fresh.
fn copy_file(from: &Path, to: &Path, about: &fs::Metadata) -> io::Result<()> {
    // Its mode may forbid to write to it, which is done with it open.
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut source, &mut target)?;
    target.set_permissions(about.permissions())?;
    target.set_times(FileTimes::new().set_modified(about.modified()?))
}
