//! Holds of the processes of a machine, in a file.
//!
//! `holds.json` is replaced as a whole, under the lock on `holds.lock`; it is read without one. A slot is the lock on a file in
//! `slots/`, so that it is free when its process is dead, however it died.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs, io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use nexus_core::{BackendId, harness::run_blocking};
use nexus_files::FileLock;
use serde::{Deserialize, Serialize};

use super::{
    Hold,
    memory::ClaimedSlots,
    store::{HoldStore, HoldStoreError, Revision, Slot, SlotClaim, StoredHold, pause},
};

/// Longest wait for other writers. A write takes some milliseconds, on a slow disk a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest file that is read or written.
const MAX_BYTES: u64 = 1 << 20;
/// The longest reason that is written, in bytes: at first, and where there are so many holds that the file would become too long.
const MAX_REASON_BYTES: [usize; 2] = [16 << 10, 256];
/// Most unreadable files that are moved aside.
const MAX_ASIDE: u32 = 10;
/// Attempts at a taken slot: another process may only be looking at it.
const CLAIMS: u32 = 5;
/// Pause between two attempts.
const CLAIM_PAUSE: Duration = Duration::from_millis(1);

/// Holds in a folder, shared by all processes that use it. Clones share what one process knows.
///
/// A write is atomic: a process that is killed at any moment leaves the old holds or the new ones. A file that cannot be
/// understood is moved aside (`holds.json.unreadable-1`) with a warning. Where the folder cannot be written, holds and slots are
/// those of this process, with a warning, until it can be again. Nothing is made before there is something to keep. Only the
/// owner may read what is made.
#[derive(Clone, Debug)]
pub struct FileHoldStore(Arc<HoldFolder>);

#[derive(Debug)]
struct HoldFolder {
    folder: PathBuf,
    /// Locked while the file is read or replaced, so that no older content overwrites a newer one in memory.
    turn: Mutex<()>,
    memory: Mutex<Memory>,
    claims: ClaimedSlots,
    /// True if the unusable folder was reported.
    has_warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Memory {
    /// Holds at the last look. A marked probe belongs to another process.
    known: BTreeMap<BackendId, StoredHold>,
    /// Changes that could not be written.
    unsaved: BTreeMap<BackendId, Unsaved>,
}

/// A change that could not be written. It counts as long as the file has what it was to replace.
#[derive(Debug)]
struct Unsaved {
    over: Option<Revision>,
    now: Option<StoredHold>,
}

/// Content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredHolds {
    holds: Vec<StoredHold>,
}

/// Reason why the file gives no holds.
enum ReadFailure {
    /// The content is unreadable.
    Garbage(String),
    /// This process cannot read it.
    Io(io::Error),
}

type ByBackend = BTreeMap<BackendId, StoredHold>;

impl FileHoldStore {
    /// Holds in this folder, which is made when there is something to keep.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self(Arc::new(HoldFolder {
            folder: folder.into(),
            turn: Mutex::default(),
            memory: Mutex::default(),
            claims: ClaimedSlots::default(),
            has_warned: AtomicBool::new(false),
        }))
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&HoldFolder) -> T + Send + 'static,
    ) -> Result<T, HoldStoreError> {
        let folder = Arc::clone(&self.0);
        let done: thread::Result<T> = run_blocking(move || work(&folder)).await;
        done.map_err(|_| HoldStoreError::new("the work on its file was interrupted"))
    }
}

#[async_trait]
impl HoldStore for FileHoldStore {
    async fn list(&self) -> Result<Vec<StoredHold>, HoldStoreError> {
        self.work(|folder| folder.look().into_values().collect()).await
    }

    async fn get(&self, backend: &BackendId) -> Result<Option<StoredHold>, HoldStoreError> {
        let backend = backend.clone();
        self.work(move |folder| folder.look().remove(&backend)).await
    }

    async fn swap(
        &self,
        backend: &BackendId,
        expected: Option<Revision>,
        hold: Option<Hold>,
    ) -> Result<bool, HoldStoreError> {
        let backend = backend.clone();
        self.work(move |folder| folder.swap(&backend, expected, hold)).await
    }

    async fn claim(&self, slot: &Slot) -> Result<Option<SlotClaim>, HoldStoreError> {
        // First here: that another turn of this process has it needs no look at a file.
        let Some(here) = self.0.claims.claim(slot) else { return Ok(None) };
        let slot = slot.clone();
        self.work(move |folder| folder.claim(&slot, here)).await
    }

    async fn wait_for(&self, _slots: &[Slot], tries: u32) {
        pause(tries).await;
    }

    fn known(&self) -> Vec<Hold> {
        let known = self.0.memory().known.values().cloned().collect::<Vec<_>>();
        let shown = |StoredHold { mut hold, .. }: StoredHold| {
            hold.probing |= self.0.claims.contains(&Slot::Probe(hold.backend.clone()));
            hold
        };
        known.into_iter().map(shown).collect()
    }
}

impl HoldFolder {
    /// Every hold as it is now, and whether a turn of any process is finding out.
    fn look(&self) -> ByBackend {
        let mut held = self.refresh();
        for stored in held.values_mut() {
            let probe = Slot::Probe(stored.hold.backend.clone());
            let is_ours = self.claims.contains(&probe);
            let is_others = !is_ours && FileLock::is_locked(&self.slot(&probe)).unwrap_or(false);
            // The state of our own probe is always known.
            if let Some(known) = self.memory().known.get_mut(&stored.hold.backend) {
                known.hold.probing = is_others;
            }
            stored.hold.probing = is_ours || is_others;
        }
        held
    }

    /// Returns the present content of the file, with the unwritten changes.
    fn refresh(&self) -> ByBackend {
        {
            let _turn = self.turn();
            match self.read() {
                Ok(content) => return self.remember(content),
                Err(ReadFailure::Io(error)) => {
                    self.warn(&error);
                    return self.memory().known.clone();
                }
                Err(ReadFailure::Garbage(_)) => {}
            }
        }
        let lock = self.lock();
        let _turn = self.turn();
        match self.read_or_mend(lock.as_ref()) {
            Some(content) => self.remember(content),
            None => self.memory().known.clone(),
        }
    }

    fn swap(&self, backend: &BackendId, expected: Option<Revision>, hold: Option<Hold>) -> bool {
        // Taken first: a wait for another process keeps no turn of this one from reading.
        let lock = self.lock();
        let _turn = self.turn();
        let content = self.read_or_mend(lock.as_ref());
        // An unreadable file is not overwritten.
        let lock = lock.filter(|_| content.is_some());
        let mut held = match content {
            Some(content) => self.remember(content),
            None => self.memory().known.clone(),
        };
        let found = held.get(backend).map(|stored| stored.revision);
        if found != expected {
            return false;
        }
        let revision = next_revision(&held);
        let now = hold.map(|hold| StoredHold { hold, revision });
        match now.clone() {
            Some(stored) => held.insert(backend.clone(), stored),
            None => held.remove(backend),
        };
        let is_saved = lock.is_some_and(|_lock| match self.write(&held) {
            Ok(()) => true,
            Err(error) => {
                self.warn(&error);
                false
            }
        });
        let mut memory = self.memory();
        if is_saved {
            memory.unsaved.clear();
            self.has_warned.store(false, Ordering::Relaxed);
        } else {
            // The file still has the value that the first of several such changes found.
            let over = memory.unsaved.get(backend).map_or(found, |unsaved| unsaved.over);
            memory.unsaved.insert(backend.clone(), Unsaved { over, now });
        }
        memory.known = held;
        true
    }

    /// Takes a slot that is this process's, for all processes.
    fn claim(&self, slot: &Slot, here: SlotClaim) -> Option<SlotClaim> {
        let path = self.slot(slot);
        // Only probes are looked at; slots of turns are not.
        let tries = if matches!(slot, Slot::Probe(_)) { CLAIMS } else { 1 };
        for attempt in 1..=tries {
            match nexus_files::make_private_folder(&self.folder.join("slots"))
                .and_then(|()| FileLock::try_lock(&path))
            {
                Ok(Some(lock)) => return Some(SlotClaim::new((lock, here))),
                Ok(None) if attempt < tries => thread::sleep(CLAIM_PAUSE),
                Ok(None) => {}
                Err(error) => {
                    self.warn(&error);
                    return Some(here);
                }
            }
        }
        None
    }

    /// Returns the content of the file, if it is readable; a process with the lock moves an unreadable file
    /// aside.
    fn read_or_mend(&self, lock: Option<&FileLock>) -> Option<ByBackend> {
        match self.read() {
            Ok(content) => Some(content),
            Err(ReadFailure::Io(error)) => {
                self.warn(&error);
                None
            }
            Err(ReadFailure::Garbage(reason)) => {
                lock?;
                self.move_aside(&reason).then(ByBackend::new)
            }
        }
    }

    fn read(&self) -> Result<ByBackend, ReadFailure> {
        let path = self.path();
        let read = nexus_files::read_bounded(&path, MAX_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => ReadFailure::Garbage(error.to_string()),
            _ => ReadFailure::Io(error),
        })?;
        let Some(bytes) = read else { return Ok(ByBackend::new()) };
        let content: StoredHolds =
            serde_json::from_slice(&bytes).map_err(|error| ReadFailure::Garbage(error.to_string()))?;
        Ok(content.holds.into_iter().map(|stored| (stored.hold.backend.clone(), stored)).collect())
    }

    /// Replaces the file as a whole.
    fn write(&self, held: &ByBackend) -> io::Result<()> {
        let mut content = StoredHolds { holds: held.values().cloned().collect() };
        let mut bytes = Vec::new();
        for most in MAX_REASON_BYTES {
            for StoredHold { hold, .. } in &mut content.holds {
                hold.probing = false;
                hold.reason.truncate(hold.reason.floor_char_boundary(most));
            }
            bytes = serde_json::to_vec(&content)?;
            if bytes.len() as u64 <= MAX_BYTES {
                break;
            }
        }
        if bytes.len() as u64 > MAX_BYTES {
            return Err(io::Error::other("there are more holds than the file may contain"));
        }
        // The caller holds the lock: unfinished files are those of writers that died.
        nexus_files::remove_unfinished(&self.folder);
        nexus_files::replace(&self.path(), &bytes)
    }

    /// Says whether it did.
    fn move_aside(&self, reason: &str) -> bool {
        let path = self.path();
        let is_free = |to: &PathBuf| matches!(fs::symlink_metadata(to), Err(error) if error.kind() == io::ErrorKind::NotFound);
        let names = (1..=MAX_ASIDE).map(|number| self.folder.join(format!("holds.json.unreadable-{number}")));
        let Some(to) = names.into_iter().find(is_free) else {
            self.warn(&"too many unreadable files lie beside holds.json: delete them");
            return false;
        };
        if let Err(error) = fs::rename(&path, &to) {
            self.warn(&error);
            return false;
        }
        tracing::warn!(
            file = %path.display(),
            moved_to = %to.display(),
            reason,
            "the hold file cannot be parsed and was renamed"
        );
        true
    }

    /// Remembers what the file has, with what could not be written.
    fn remember(&self, mut held: ByBackend) -> ByBackend {
        let mut memory = self.memory();
        memory.unsaved.retain(|backend, unsaved| {
            // Another process had the last word since.
            if held.get(backend).map(|stored| stored.revision) != unsaved.over {
                return false;
            }
            match unsaved.now.clone() {
                Some(stored) => held.insert(backend.clone(), stored),
                None => held.remove(backend),
            };
            true
        });
        memory.known.clone_from(&held);
        held
    }

    fn lock(&self) -> Option<FileLock> {
        let path = self.folder.join("holds.lock");
        let locked = nexus_files::make_private_folder(&self.folder).and_then(|()| {
            FileLock::lock(&path, PATIENCE)?.ok_or_else(|| {
                let reason = format!("{} is locked by another process", path.display());
                io::Error::new(io::ErrorKind::TimedOut, reason)
            })
        });
        match locked {
            Ok(lock) => Some(lock),
            Err(error) => {
                self.warn(&error);
                None
            }
        }
    }

    /// Says once that the folder cannot be used.
    fn warn(&self, reason: &dyn Display) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                folder = %self.folder.display(),
                %reason,
                "holds cannot be shared with other processes; they apply to this process only"
            );
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("holds.json")
    }

    fn slot(&self, slot: &Slot) -> PathBuf {
        let name = match slot {
            Slot::Probe(backend) => format!("{}.probe", file_name(backend.as_str())),
            Slot::Next(backend) => format!("{}.next", file_name(backend.as_str())),
            Slot::Turn(backend, index) => format!("{}.turn-{index}", file_name(backend.as_str())),
        };
        self.folder.join("slots").join(name)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a revision that no hold has or had: from the time, because a deleted file leaves no trace of its
/// revisions.
fn next_revision(held: &ByBackend) -> Revision {
    let last = held.values().map(|stored| stored.revision.0).max().unwrap_or(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    Revision(u64::try_from(now).unwrap_or(0).max(last.saturating_add(1)))
}

/// A backend's name as one of a file, on every system: other letters are spelled out, and a long one ends with its hash.
fn file_name(name: &str) -> String {
    const MAX_BYTES: usize = 100;
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => safe.push(char::from(byte)),
            _ => safe.push_str(&format!("%{byte:02x}")),
        }
    }
    if safe.len() > MAX_BYTES {
        // FNV-1a, which stays the same in every build.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        safe.truncate(MAX_BYTES);
        safe.push_str(&format!("%{hash:016x}"));
    }
    safe
}
