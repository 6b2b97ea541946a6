//! Pending file: the file into which a new text is written before it replaces the old one.
//!
//! Its name is `.NAME.PID-COUNT.new`, and only its writer writes to it. So two writers never mix their bytes, even if
//! the refresh lock does not work. The file is locked while its writer lives, which distinguishes it from the file of a
//! dead writer.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
    sync::atomic::{AtomicU64, Ordering},
};

use nexus_core::Secret;
use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
};

use super::MAX_TEXT_BYTES;
use super::folder::{OwnerOnlyFolder, explained, refuse_others};

/// Maximum number of names that are tried while files of dead writers have the earlier ones.
const MAX_NAMES: usize = 1000;

/// Suffix of a pending file's name.
pub(super) const ENDING: &str = ".new";

/// A file that is ready to be written and put in place. If it is dropped before the text is complete, the file is
/// removed.
#[derive(Debug)]
pub(super) struct PendingFile {
    folder: OwnerOnlyFolder,
    name: OsString,
    file: File,
    /// True once the file contains the whole text. Then `drop` leaves the file, so that a recovery can put it in place.
    is_whole: bool,
    is_placed: bool,
}

impl PendingFile {
    /// Creates the pending file for `main`, with room for `room` bytes. Errors name the fault, with advice.
    pub(super) fn make(folder: OwnerOnlyFolder, main: &OsStr, room: u64) -> Result<Self, String> {
        let (name, file) = create(&folder, main)?;
        // On a file system without locks, a recovery may remove this file as a dead writer's. The writer then creates
        // it again.
        let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
        let pending = Self { folder, name, file, is_whole: false, is_placed: false };
        let failed = |error| explained("it cannot be written", error);
        rustix::fs::fchmod(&pending.file, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let found = fstat(&pending.file).map_err(failed)?;
        refuse_others(&found, &pending.folder.path().join(&pending.name)).map_err(|_| {
            "its file system does not support file modes, so others could read it: choose another \
                NEXUS_HOME"
        })?;
        reserve(&pending.file, room).map_err(failed)?;
        pending.folder.sync()?;
        Ok(pending)
    }

    /// Returns true if the file still exists under its name.
    pub(super) fn is_there(&self) -> bool {
        is_at(&self.folder, &self.name, &self.file)
    }

    /// Writes the text, and moves the file to `main`.
    pub(super) fn place(&mut self, main: &OsStr, text: &Secret) -> Result<(), String> {
        let bytes = text.expose().as_bytes();
        if bytes.len() as u64 > MAX_TEXT_BYTES {
            return Err(format!("a login of {} bytes is larger than the limit", bytes.len()));
        }
        let failed = |error: std::io::Error| match Errno::from_io_error(&error) {
            Some(errno) => explained("it cannot be written", errno),
            None => format!("it cannot be written: {error}"),
        };
        self.file.write_all_at(bytes, 0).map_err(failed)?;
        // Releases the reserved space that the text does not need.
        self.file.set_len(bytes.len() as u64).map_err(failed)?;
        self.is_whole = true;
        self.file.sync_all().map_err(failed)?;
        renameat(&self.folder, &self.name, &self.folder, main)
            .map_err(|error| explained("it cannot be replaced", error))?;
        self.is_placed = true;
        self.folder.sync()
    }
}

#[cfg(test)]
impl PendingFile {
    /// Reserves space as on a file system without allocation.
    pub(super) fn reserve_by_zeros_for_test(&self, room: u64) {
        reserve_by_zeros(&self.file, room).unwrap();
    }
}

impl Drop for PendingFile {
    fn drop(&mut self) {
        if !self.is_whole && !self.is_placed && self.is_there() {
            // Ignore an error: the leftover file is incomplete, and the next recovery removes it.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Returns true if `name` is the name of a pending file for `main`.
pub(super) fn is_pending(name: &OsStr, main: &OsStr) -> bool {
    let middle = || {
        let rest = name.as_bytes().strip_prefix(b".")?.strip_prefix(main.as_bytes())?;
        rest.strip_prefix(b".")?.strip_suffix(ENDING.as_bytes())
    };
    middle().is_some_and(|middle| middle.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-'))
}

/// Returns true if the folder's entry `name` is `file`.
pub(super) fn is_at(folder: &OwnerOnlyFolder, name: &OsStr, file: &File) -> bool {
    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    matches!((found, fstat(file)), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino))
}

/// Returns true if the writer of a pending file is alive, judged by the file lock.
pub(super) fn is_being_written(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

fn create(folder: &OwnerOnlyFolder, main: &OsStr) -> Result<(OsString, File), String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);

    let how = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..MAX_NAMES {
        let mut name = OsString::from(".");
        name.push(main);
        name.push(format!(".{}-{}{ENDING}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
        match openat(folder, &name, how, Mode::RUSR | Mode::WUSR) {
            Ok(file) => return Ok((name, file.into())),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(explained("nothing can be written to its folder", error)),
        }
    }
    Err(format!(
        "its folder has too many files of unfinished writes: remove the files that end with `{ENDING}`"
    ))
}

/// Allocates space for `room` bytes, so that a disk that fills up later does not prevent the write.
fn reserve(file: &File, room: u64) -> rustix::io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::{FallocateFlags, fallocate};

        loop {
            // The length stays unchanged, so that no zeros follow the text.
            match fallocate(file, FallocateFlags::KEEP_SIZE, 0, room) {
                Err(Errno::INTR) => {}
                Err(Errno::NOTSUP | Errno::NOSYS | Errno::INVAL) => break,
                done => return done,
            }
        }
    }
    reserve_by_zeros(file, room)
}

/// Allocates space by writing zeros, for file systems without allocation. They are cut off after the text is written
/// over them. On a file system that never writes in place, this guarantees nothing.
fn reserve_by_zeros(file: &File, room: u64) -> rustix::io::Result<()> {
    let zeros = vec![0; usize::try_from(room).unwrap_or_default()];
    let io_error = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    file.write_all_at(&zeros, 0).map_err(io_error)?;
    // File systems may allocate blocks only when data is flushed.
    file.sync_data().map_err(io_error)
}
