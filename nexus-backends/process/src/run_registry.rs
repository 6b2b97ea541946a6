//! Registry of runs on disk. It lets a later program end the processes that a killed one left behind.
//!
//! Each run has one file, `$NEXUS_HOME/runs/<run id>.json`, written *before* its first process starts. The owner locks
//! the file as long as it lives; the kernel releases the lock when the owner dies for any reason. [`sweep`] ends the
//! processes of a dead owner. It touches nothing of a live owner, which it recognises by the lock, or by process id,
//! start time and boot.
//!
//! A network file system for `$NEXUS_HOME` is untested.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nexus_files::{FileLock, make_private_folder, open_regular};
use serde::{Deserialize, Serialize};

use crate::containment::end_cgroup;
use crate::guarded_folder::{GuardedFolder, PlantedRepository};
use crate::private_home::{PrivateHome, remove_tree};
use crate::process_tree::{LiveProcess, ProcessIdentity, ProcessTree, boot_id, identity_of};
use crate::run_id::RunId;

/// Folder of the entries, below `$NEXUS_HOME`.
const RUNS: &str = "runs";
/// Folder of the runs' homes, below `$NEXUS_HOME`.
const HOMES: &str = "tmp";
/// Maximum size of an entry that is read, in bytes.
const ENTRY_BYTES: u64 = 1 << 20;
/// Longest time that a sweep spends on killing one run.
const KILL_PATIENCE: Duration = Duration::from_secs(2);
/// Age below which a sweep ignores an unfinished entry.
const UNFINISHED_AGE: Duration = Duration::from_secs(60);

/// Registry entry of one run. Clones share the entry; dropping the last clone removes it.
#[derive(Clone, Debug)]
pub struct RunEntry {
    inner: Arc<RegisteredRun>,
}

/// Run with its registry file.
#[derive(Debug)]
struct RegisteredRun {
    run: RunId,
    nexus_home: PathBuf,
    path: PathBuf,
    lock: FileLock,
    written: Mutex<RunInventory>,
    /// True if a process or a folder of the run is left for a sweep.
    is_left: Arc<AtomicBool>,
}

/// Content of the registry file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RunInventory {
    version: u32,
    run: String,
    owner: Owner,
    children: Vec<ProcessIdentity>,
    folders: Vec<PathBuf>,
    #[serde(default)]
    cgroups: Vec<PathBuf>,
    /// Folders in which the run may create no repository.
    #[serde(default)]
    guarded: Vec<GuardedFolder>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Owner {
    process: Option<ProcessIdentity>,
    boot_id: String,
}

/// Result of a sweep.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Swept {
    /// Runs whose owner was dead.
    pub runs: Vec<RunId>,
    /// Number of processes of these runs that were still alive.
    pub killed: usize,
    /// Processes that survived the kill.
    pub survivors: Vec<LiveProcess>,
    /// Repositories that these runs created where none may appear.
    pub repositories: Vec<PlantedRepository>,
    /// Failed removals, by file or folder. A later sweep tries again.
    pub failures: Vec<(PathBuf, io::Error)>,
}

impl RunEntry {
    /// Registers a new run below `nexus_home`, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn begin(nexus_home: &Path) -> io::Result<Self> {
        let run = RunId::new();
        let runs = nexus_home.join(RUNS);
        make_private_folder(&runs)?;
        let written = RunInventory {
            version: 1,
            run: run.as_str().to_owned(),
            owner: Owner { process: identity_of(std::process::id()), boot_id: boot_id()? },
            children: Vec::new(),
            folders: Vec::new(),
            cgroups: Vec::new(),
            guarded: Vec::new(),
        };
        let path = runs.join(format!("{run}.json"));
        // Lock the file under another name first: a sweep must never see the entry unlocked.
        let unfinished = runs.join(format!("{run}.new"));
        let file = open_regular(&unfinished, OpenOptions::new().read(true).write(true).create_new(true))?;
        let locked = FileLock::try_lock_open(&unfinished, file)
            .and_then(|lock| lock.ok_or_else(|| io::ErrorKind::WouldBlock.into()));
        let lock = locked.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        // A failure from here on drops the entry, which removes the file again.
        let mut entry = RegisteredRun {
            run,
            nexus_home: nexus_home.to_owned(),
            path: unfinished,
            lock,
            written: Mutex::new(written),
            is_left: Arc::default(),
        };
        entry.write(&entry.lock())?;
        fs::rename(&entry.path, &path)?;
        entry.path = path;
        Ok(Self { inner: Arc::new(entry) })
    }

    /// Returns the name of the run.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.inner.run
    }

    /// Creates a private folder for this run below `$NEXUS_HOME/tmp`. It is removed when dropped, or by a
    /// sweep.
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn home(&self) -> io::Result<PrivateHome> {
        let parent = self.inner.nexus_home.join(HOMES);
        make_private_folder(&parent)?;
        let home = PrivateHome::below(&parent, self.run())?.telling(&self.inner.is_left);
        let mut written = self.inner.lock();
        written.folders.push(home.path().to_owned());
        self.inner.write(&written)?;
        Ok(home)
    }

    /// Keeps the entry for the next sweep, even if this program lives on.
    pub(crate) fn leave_to_sweep(&self) {
        self.inner.is_left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn add_cgroup(&self, cgroup: &Path) {
        let mut written = self.inner.lock();
        written.cgroups.push(cgroup.to_owned());
        self.keep(&written);
    }

    /// Registers folders in which a sweep sets new repositories aside.
    pub(crate) fn guard(&self, folders: Vec<GuardedFolder>) -> io::Result<()> {
        let mut written = self.inner.lock();
        written.guarded = folders;
        self.inner.write(&written)
    }

    pub(crate) fn add_child(&self, child: ProcessIdentity) {
        let mut written = self.inner.lock();
        written.children.push(child);
        self.keep(&written);
    }

    pub(crate) fn remove_child(&self, child: ProcessIdentity) {
        let mut written = self.inner.lock();
        written.children.retain(|known| *known != child);
        self.keep(&written);
    }

    /// Writes the entry. A failure causes only a warning, because a sweep also finds the child by its marker.
    fn keep(&self, written: &RunInventory) {
        if let Err(error) = self.inner.write(written) {
            tracing::warn!(run = %self.inner.run, %error, "the run registry could not be updated");
        }
    }
}

impl RegisteredRun {
    fn lock(&self) -> std::sync::MutexGuard<'_, RunInventory> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, written: &RunInventory) -> io::Result<()> {
        let text = serde_json::to_vec(written)?;
        self.lock.file().write_all_at(&text, 0)?;
        self.lock.file().set_len(text.len() as u64)
    }
}

impl Drop for RegisteredRun {
    fn drop(&mut self) {
        if self.is_left.load(Ordering::Relaxed) {
            let mut written = self.lock().clone();
            written.owner.process = None;
            if self.write(&written).is_ok() {
                return tracing::warn!(run = %self.run, "parts of the run remain for the next sweep");
            }
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Ends every run below `nexus_home` whose owner is dead: kills the processes with its marker or in its entry, removes
/// its folders, sets repositories aside that it created, and deletes the entry.
///
/// Blocks; takes milliseconds if there is nothing to do.
///
/// # Errors
///
/// Only if the registry's folder cannot be read. Errors of single entries are in [`Swept::failures`].
pub fn sweep(nexus_home: &Path) -> io::Result<Swept> {
    let mut swept = Swept::default();
    let entries = match fs::read_dir(nexus_home.join(RUNS)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(swept),
        Err(error) => return Err(error),
    };
    let mut deferred = Vec::new();
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let run = path.file_stem().and_then(|stem| stem.to_str()).and_then(RunId::parse);
        let kind = path.extension().and_then(|extension| extension.to_str());
        let done = match (run, kind) {
            (Some(run), Some("json")) => sweep_run(nexus_home, &path, &run, &mut swept, Some(&mut deferred)),
            (Some(_), Some("new")) => sweep_unfinished(&path),
            _ => Ok(()),
        };
        if let Err(error) = done {
            swept.failures.push((path, error));
        }
    }
    for (path, run) in deferred {
        if let Err(error) = sweep_run(nexus_home, &path, &run, &mut swept, None) {
            swept.failures.push((path, error));
        }
    }
    Ok(swept)
}

/// Sweeps one run. Adds an entry with guarded folders to `deferred` instead, if there is a list.
fn sweep_run(
    nexus_home: &Path,
    path: &Path,
    run: &RunId,
    swept: &mut Swept,
    deferred: Option<&mut Vec<(PathBuf, RunId)>>,
) -> io::Result<()> {
    let Some(entry) = abandoned(path)? else { return Ok(()) };
    let mut text = Vec::new();
    entry.file().take(ENTRY_BYTES).read_to_end(&mut text)?;
    // An unreadable file was truncated when the machine went down. Its name still identifies the run.
    let written: Option<RunInventory> = serde_json::from_slice(&text).ok();
    let boot_id = boot_id()?;
    let same_boot = written.as_ref().is_none_or(|written| written.owner.boot_id == boot_id);
    let owner = written.as_ref().and_then(|written| written.owner.process);
    if same_boot && owner.is_some_and(|owner| identity_of(owner.pid) == Some(owner)) {
        return Ok(());
    }
    // A living process of another dead run could create a repository again, so all processes are ended first.
    let is_guard = written.as_ref().is_some_and(|written| !written.guarded.is_empty());
    if let Some(deferred) = deferred.filter(|_| is_guard) {
        deferred.push((path.to_owned(), run.clone()));
        return Ok(());
    }
    if same_boot {
        for cgroup in written.iter().flat_map(|written| &written.cgroups) {
            let (count, left) = end_cgroup(cgroup, run, KILL_PATIENCE);
            swept.killed += count;
            swept.survivors.extend(left);
        }
        let mut tree = ProcessTree::of_run(run.clone());
        for child in written.iter().flat_map(|written| &written.children) {
            tree.remember(*child);
        }
        swept.killed += tree.alive().len();
        let survivors = tree.kill(KILL_PATIENCE);
        if tree.is_unsure() {
            return Err(io::Error::other(
                "the remaining processes of the run cannot be listed: too few descriptors or too little \
                memory",
            ));
        }
        if !survivors.is_empty() {
            swept.survivors.extend(survivors);
            return Err(io::Error::other("processes of the run cannot be killed"));
        }
    }
    let planted: Vec<_> =
        written.iter().flat_map(|written| &written.guarded).flat_map(GuardedFolder::set_aside).collect();
    let is_left = planted.iter().any(|planted| matches!(planted, PlantedRepository::Left { .. }));
    swept.repositories.extend(planted);
    if is_left {
        return Err(io::Error::other("a repository that the run created cannot be moved aside"));
    }
    // Folders are identified only by their name, so the content of an entry cannot cause a removal elsewhere.
    let homes = nexus_home.join(HOMES);
    for entry in fs::read_dir(&homes).into_iter().flatten().flatten() {
        if PrivateHome::belongs_to(&entry.file_name(), run) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_file(path)?;
    swept.runs.push(run.clone());
    Ok(())
}

fn sweep_unfinished(path: &Path) -> io::Result<()> {
    if let Some(entry) = abandoned(path)? {
        let age = SystemTime::now().duration_since(entry.file().metadata()?.modified()?).unwrap_or_default();
        if age > UNFINISHED_AGE {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Locks an existing entry. Returns `None` if its owner lives, or if the entry is gone.
fn abandoned(path: &Path) -> io::Result<Option<FileLock>> {
    match FileLock::try_lock_existing(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        locked => locked,
    }
}
