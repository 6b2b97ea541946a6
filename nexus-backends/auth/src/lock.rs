//! The lock of one login: at most one holder among all tasks, threads and processes that can see its folder.
//!
//! It is the kernel's lock on the file `NAME.lock`, each attempt on a descriptor of its own, and is gone with its
//! holder, however that ends. Two more things make it hold:
//!
//! - The lock file may be removed by somebody while it is held. So every holder also shares a lock on a second file,
//!   the guard `.NAME.guard`, and nobody makes a lock file without having the guard for himself: a new one cannot
//!   appear beside a holder unless both are removed.
//! - On file systems where locks may lie a [`Claim`] is made as well.
//!
//! An attempt never waits for another holder; how long to try is the keeper's business.

mod claim;
mod file_system;
mod holder;

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

pub(crate) use claim::{CLAIM_LIFE, ClaimId};
use claim::{Claim, Claiming};
pub(crate) use holder::Holder;

use super::store::StoreError;

/// Largest note about the holder that is read, in bytes.
const MAX_NOTE_BYTES: u64 = 4 << 10;

/// How often one attempt starts over because the file changed under it.
const ROUNDS: usize = 4;

/// Where the lock of one login is.
#[derive(Clone, Debug)]
pub(crate) struct LockPlace {
    folder: PathBuf,
    name: String,
    trust: Trust,
}

/// Whether the kernel's lock is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The file system decides.
    AsTheFileSystemDeserves,
    /// Never: claims are made everywhere.
    Never,
}

/// What came of one attempt.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It is ours.
    Got(LoginLock),
    /// It is somebody else's.
    Busy {
        /// Who that is, where it is known.
        holder: Option<Holder>,
        /// The claim that is in the way, to be watched.
        claim: Option<ClaimId>,
    },
}

/// The lock, held. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct LoginLock {
    // The order in which they are given up.
    claim: Option<Claim>,
    file: Guard,
    guard: Guard,
    place: LockPlace,
    since: Instant,
    took_over: bool,
}

/// A descriptor with a lock on it. The lock is given up by name, not only by closing: a child that was forked at this
/// very moment still holds a copy of the descriptor until it executes its program.
#[derive(Debug)]
struct Guard(File);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

impl LockPlace {
    /// The lock file is `folder/NAME.lock`. The folder is made when it is needed.
    pub(crate) fn new(folder: impl Into<PathBuf>, name: impl Into<String>) -> Self {
        Self { folder: folder.into(), name: name.into(), trust: Trust::AsTheFileSystemDeserves }
    }

    /// States whether the kernel's lock is enough.
    pub(crate) fn with_trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// The lock file.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.lock", self.name))
    }

    fn guard_path(&self) -> PathBuf {
        self.folder.join(format!(".{}.guard", self.name))
    }

    /// Tries once. `stale` is a claim that was watched for [`CLAIM_LIFE`].
    ///
    /// # Errors
    ///
    /// The lock file cannot be made, opened or locked at all, and then nobody should go on.
    pub(crate) fn attempt(&self, stale: Option<&ClaimId>) -> Result<Attempt, StoreError> {
        let path = self.path();
        if !is_name(&self.name) {
            return Err(StoreError::new(path.display().to_string(), "the login's name is not a file's name"));
        }
        self.attempt_at(&path, stale).map_err(|error| {
            StoreError::new(
                path.display().to_string(),
                format!("the login cannot be locked: {error}; its folder has to be ours, and writable"),
            )
        })
    }

    fn attempt_at(&self, path: &Path, stale: Option<&ClaimId>) -> io::Result<Attempt> {
        let unknown = Attempt::Busy { holder: None, claim: None };
        for _ in 0..ROUNDS {
            let guard = Guard(self.open_guard()?);
            if let Err(TryLockError::WouldBlock) = guard.0.try_lock_shared() {
                return Ok(unknown);
            }
            if !is_at(&guard.0, &self.guard_path()) {
                continue;
            }
            let needs_claim = self.trust == Trust::Never || !file_system::keeps_locks(&guard.0);
            let mut file = match open_lock_file(path, false) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    drop(guard);
                    if self.make_lock_file(path)? {
                        continue;
                    }
                    return Ok(unknown);
                }
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Ok(Attempt::Busy { holder: read_note(&mut file), claim: None });
                }
                // Where there are no locks at all, the claim is what counts.
                Err(TryLockError::Error(_)) if needs_claim => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let mut file = Guard(file);
            if !is_at(&file.0, path) {
                continue;
            }
            let (here, since) = (Holder::here(), Instant::now());
            let (claim, took_over) = if needs_claim {
                match Claim::make(&path.with_extension("claim"), &here, stale)? {
                    Claiming::Made { claim, took_over } => (Some(claim), took_over),
                    Claiming::Foreign { id, holder } => {
                        return Ok(Attempt::Busy { holder, claim: Some(id) });
                    }
                }
            } else {
                (None, false)
            };
            write_note(&mut file.0, &here);
            return Ok(Attempt::Got(LoginLock { claim, file, guard, place: self.clone(), since, took_over }));
        }
        Ok(unknown)
    }

    fn open_guard(&self) -> io::Result<File> {
        match open_lock_file(&self.guard_path(), true) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
                open_lock_file(&self.guard_path(), true)
            }
            other => other,
        }
    }

    /// Makes the lock file, unless somebody holds this lock, or tries to. Returns whether it may be there now.
    fn make_lock_file(&self, path: &Path) -> io::Result<bool> {
        let guard = Guard(self.open_guard()?);
        if let Err(TryLockError::WouldBlock) = guard.0.try_lock() {
            return Ok(false);
        }
        if !is_at(&guard.0, &self.guard_path()) {
            return Ok(false);
        }
        open_lock_file(path, true).map(|_file| true)
    }
}

impl LoginLock {
    /// Whether somebody else's claim had to go for it: then it counts only if it [is held](Self::is_held) a moment
    /// later.
    pub(crate) fn took_over(&self) -> bool {
        self.took_over
    }

    /// Whether nobody has taken it away: asked right before something is done that cannot be undone.
    pub(crate) fn is_held(&self) -> bool {
        is_at(&self.file.0, &self.place.path())
            && is_at(&self.guard.0, &self.place.guard_path())
            && self.claim.as_ref().is_none_or(Claim::stands)
    }

    /// For how long it has been held.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn open_lock_file(path: &Path, create: bool) -> io::Result<File> {
    let no_links = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_links)
        .open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a file")) }
}

/// Whether `file` is the one that others find at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Says in the file who holds it. It is for people: where it cannot be written, nobody is named.
fn write_note(file: &mut File, here: &Holder) {
    let note = serde_json::to_vec(here).unwrap_or_default();
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(&note));
}

fn read_note(file: &mut File) -> Option<Holder> {
    let mut note = Vec::new();
    file.take(MAX_NOTE_BYTES).read_to_end(&mut note).ok()?;
    serde_json::from_slice(&note).ok()
}
