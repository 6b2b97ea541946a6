//! Stores the holds of all processes of a machine in a file.
//!
//! A write replaces `holds.json` as a whole while it locks `holds.lock`; a read takes no lock. A slot is the lock on a file in
//! `slots/`. The system releases that lock when the process dies, however it dies.

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

/// Longest wait for the lock of other writers. A write takes some milliseconds, on a slow disk a tenth of a second.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest file that is read or written, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Longest stored reason, in bytes. The second limit applies if the file would be too large with the first.
const MAX_REASON_BYTES: [usize; 2] = [16 << 10, 256];
/// Maximum number of unreadable files that are moved aside, so that they do not fill the folder.
const MAX_ASIDE: u32 = 10;
/// Attempts to claim a slot that is locked. Another process may only be checking the lock for a moment.
const CLAIMS: u32 = 5;
/// Pause between two attempts to claim a slot.
const CLAIM_PAUSE: Duration = Duration::from_millis(1);

/// Stores holds in a folder that all processes of a machine can share. Clones share this process's memory of them.
///
/// A write is atomic: a process that is killed at any moment leaves the old holds or the new ones. An unreadable file is moved
/// aside (`holds.json.unreadable-1`) with a warning. If the folder is not writable, holds and slots apply to this process only,
/// with a warning, until it is writable again. The folder is created at the first write. Only its owner may read its files.
#[derive(Clone, Debug)]
pub struct FileHoldStore(Arc<HoldFolder>);

#[derive(Debug)]
struct HoldFolder {
    folder: PathBuf,
    /// Locked while this process reads or replaces the file, so that no older content overwrites newer content in memory.
    turn: Mutex<()>,
    memory: Mutex<Memory>,
    claims: ClaimedSlots,
    /// True if the unusable folder was already reported.
    has_warned: AtomicBool,
}

#[derive(Debug, Default)]
struct Memory {
    /// Holds from the last read. `probing` here means that another process has the probe slot.
    known: BTreeMap<BackendId, StoredHold>,
    /// Changes that could not be written to the file.
    unsaved: BTreeMap<BackendId, Unsaved>,
}

/// A change that could not be written. It applies while the file still has the revision `over`.
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

/// Reason why the file could not be read.
enum ReadFailure {
    /// The content is invalid.
    Garbage(String),
    /// The system returned an error.
    Io(io::Error),
}

type ByBackend = BTreeMap<BackendId, StoredHold>;

impl FileHoldStore {
    /// Stores holds in this folder, which the first write creates.
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
        // Check the claims of this process first. They need no file access.
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
    /// Returns every hold with its current state, and sets `probing` if a turn of any process probes the backend.
    fn look(&self) -> ByBackend {
        let mut held = self.refresh();
        for stored in held.values_mut() {
            let probe = Slot::Probe(stored.hold.backend.clone());
            let is_ours = self.claims.contains(&probe);
            let is_others = !is_ours && FileLock::is_locked(&self.slot(&probe)).unwrap_or(false);
            // Record only probes of other processes here. `known` adds those of this process from `claims`.
            if let Some(known) = self.memory().known.get_mut(&stored.hold.backend) {
                known.hold.probing = is_others;
            }
            stored.hold.probing = is_ours || is_others;
        }
        held
    }

    /// Returns the present content of the file, with the unwritten changes applied.
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
        // Take the file lock before the `turn` mutex, as `swap` does.
        let lock = self.lock();
        let _turn = self.turn();
        match self.read_or_mend(lock.as_ref()) {
            Some(content) => self.remember(content),
            None => self.memory().known.clone(),
        }
    }

    fn swap(&self, backend: &BackendId, expected: Option<Revision>, hold: Option<Hold>) -> bool {
        // Take the file lock before the `turn` mutex: while this call waits for another process, other turns of this process can
        // still read.
        let lock = self.lock();
        let _turn = self.turn();
        let content = self.read_or_mend(lock.as_ref());
        // Never overwrite a file whose content could not be read or moved aside.
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
            // `held` contains all unwritten changes, so this write has saved them too.
            memory.unsaved.clear();
            self.has_warned.store(false, Ordering::Relaxed);
        } else {
            // If an earlier change of this hold is also unwritten, the file still has the revision that the earlier change found.
            let over = memory.unsaved.get(backend).map_or(found, |unsaved| unsaved.over);
            memory.unsaved.insert(backend.clone(), Unsaved { over, now });
        }
        memory.known = held;
        true
    }

    /// Claims a slot for this process among all processes. `here` is the claim within this process.
    fn claim(&self, slot: &Slot, here: SlotClaim) -> Option<SlotClaim> {
        let path = self.slot(slot);
        // Other processes check probe slots by locking them for a moment, so try again. They never check slots of turns.
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
                    // Without a usable folder, the claim counts within this process only.
                    return Some(here);
                }
            }
        }
        None
    }

    /// Returns the content of the file, if it is valid. A process with the lock moves an invalid file aside.
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

    /// Replaces the whole file.
    fn write(&self, held: &ByBackend) -> io::Result<()> {
        let mut content = StoredHolds { holds: held.values().cloned().collect() };
        let mut bytes = Vec::new();
        for most in MAX_REASON_BYTES {
            for StoredHold { hold, .. } in &mut content.holds {
                // The lock of the slot shows a probe. A stored flag would outlive a killed process.
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
        // The caller holds the lock, so unfinished files belong to writers that died.
        nexus_files::remove_unfinished(&self.folder);
        nexus_files::replace(&self.path(), &bytes)
    }

    /// Moves the unreadable file aside. Returns true on success.
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

    /// Applies the unwritten changes to the file's content, and stores the result in memory.
    fn remember(&self, mut held: ByBackend) -> ByBackend {
        let mut memory = self.memory();
        memory.unsaved.retain(|backend, unsaved| {
            // Another process has changed this hold meanwhile. Drop the unwritten change.
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

    /// Warns once that the folder cannot be used.
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

/// Returns a revision that no hold has or had. It derives from the time, because a deleted file leaves no trace of its revisions.
fn next_revision(held: &ByBackend) -> Revision {
    let last = held.values().map(|stored| stored.revision.0).max().unwrap_or(0);
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos());
    Revision(u64::try_from(now).unwrap_or(0).max(last.saturating_add(1)))
}

/// Encodes a backend's name as a file name that is valid on every system. Other characters are escaped, and a long name ends with
/// its hash.
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
        // FNV-1a, because its output is the same in every build.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        safe.truncate(MAX_BYTES);
        safe.push_str(&format!("%{hash:016x}"));
    }
    safe
}
