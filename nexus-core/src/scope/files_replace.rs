//! Replaces a file by a complete new one, and checks the replaced file.

use std::{
    ffi::OsStr,
    fs::File,
    os::fd::AsFd,
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, Stat},
    io::Errno,
};

use super::file_opener::{OpenFailure, Over};

/// Flags for a file that another program may have replaced: do not follow a link, and do not wait for a pipe.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Number of locks for concurrent replacements of this process. Source: our own bound.
const STRIPES: usize = 16;

static REPLACING: [Mutex<()>; STRIPES] = [const { Mutex::new(()) }; STRIPES];

/// Waits until no other replacement of this process runs in the folder, under any of the folder's names. Thus no
/// replacement sees content that another one is about to revert.
pub(super) fn one_at_a_time(folder: impl AsFd) -> Result<MutexGuard<'static, ()>, Errno> {
    // Folders with equal remainders share a lock, which only delays them.
    let number = rustix::fs::fstat(folder)?.st_ino;
    let stripe = usize::try_from(number % STRIPES as u64).unwrap_or_default();
    Ok(REPLACING[stripe].lock().unwrap_or_else(PoisonError::into_inner))
}

/// Moves the file `part` to `name` in the same folder, over the content that `over` allows. If that fails,
/// `part` stays.
pub(super) fn rename_over(
    folder: &OwnedFd,
    part: &OsStr,
    name: &OsStr,
    over: Over<'_>,
) -> Result<(), OpenFailure> {
    match over {
        // The rename replaces the name itself, so no link is followed, even a new one.
        Over::Anything => Ok(rustix::fs::renameat(folder, part, folder, name)?),
        Over::Nothing => rename_to_new(folder, part, name),
        Over::Matching(is_expected) => rename_to_expected(folder, part, name, is_expected),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn rename_to_new(folder: &OwnedFd, part: &OsStr, name: &OsStr) -> Result<(), OpenFailure> {
    use rustix::fs::{RenameFlags, renameat_with};
    match renameat_with(folder, part, folder, name, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => link_to_new(folder, part, name),
        renamed => Ok(renamed?),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn rename_to_new(folder: &OwnedFd, part: &OsStr, name: &OsStr) -> Result<(), OpenFailure> {
    link_to_new(folder, part, name)
}

/// Creates the name by a hard link, on file systems without `RENAME_NOREPLACE`. A link never replaces a file.
fn link_to_new(folder: &OwnedFd, part: &OsStr, name: &OsStr) -> Result<(), OpenFailure> {
    rustix::fs::linkat(folder, part, folder, name, AtFlags::empty())?;
    Ok(rustix::fs::unlinkat(folder, part, AtFlags::empty())?)
}

/// Exchanges the two names, then checks the displaced file. If its content is unexpected, exchanges the names again,
/// so that no content written since the read is lost.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn rename_to_expected(
    folder: &OwnedFd,
    part: &OsStr,
    name: &OsStr,
    is_expected: &dyn Fn(File) -> std::io::Result<bool>,
) -> Result<(), OpenFailure> {
    use rustix::fs::{RenameFlags, renameat_with};
    let exchange = || renameat_with(folder, part, folder, name, RenameFlags::EXCHANGE);
    // Read the identity of the new file now, to recognise the file after a second exchange.
    let ours = rustix::fs::statat(folder, part, AtFlags::SYMLINK_NOFOLLOW)?;
    match exchange() {
        Ok(()) => {}
        // The file was removed after it was read.
        Err(Errno::NOENT) => return Err(OpenFailure::Stale),
        // The file system cannot exchange names.
        Err(Errno::INVAL | Errno::NOSYS) => return Ok(rustix::fs::renameat(folder, part, folder, name)?),
        Err(error) => return Err(error.into()),
    }
    if matches!(opened(folder, part).map(is_expected), Ok(Ok(true))) {
        return Ok(rustix::fs::unlinkat(folder, part, AtFlags::empty())?);
    }
    match exchange() {
        // The name was removed meanwhile. Restore the displaced file under it, if the name is still free.
        Err(Errno::NOENT) => renameat_with(folder, part, folder, name, RenameFlags::NOREPLACE)?,
        exchanged => exchanged?,
    }
    let is_ours = |found: &Stat| (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino);
    match rustix::fs::statat(folder, part, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) if is_ours(&found) => Err(OpenFailure::Stale),
        // Another program replaced our file meanwhile. Its file is the newest, so it keeps the name.
        Ok(_) => {
            exchange()?;
            Err(OpenFailure::Stale)
        }
        Err(_) => Err(OpenFailure::Stale),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn rename_to_expected(
    folder: &OwnedFd,
    part: &OsStr,
    name: &OsStr,
    _is_expected: &dyn Fn(File) -> std::io::Result<bool>,
) -> Result<(), OpenFailure> {
    Ok(rustix::fs::renameat(folder, part, folder, name)?)
}

/// Opens a file to compare its content. Rejects anything but a regular file.
fn opened(folder: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let file = rustix::fs::openat(folder, name, OFlags::RDONLY | FILE, Mode::empty())?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind == FileType::RegularFile { Ok(File::from(file)) } else { Err(Errno::INVAL) }
}
