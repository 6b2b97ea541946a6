//! Writes a file completely before it gets its name.

use std::{
    ffi::OsStr,
    fs::{File, Permissions},
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    file_opener::{OpenFailure, Over},
    files_replace::rename_over,
};

/// Permissions of a new file, before the process's umask. Source: the value that `std::fs` uses.
pub(super) const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// Permissions of a replacement until it is complete and gets those of the replaced file.
const PART_FILE: Mode = Mode::from_raw_mode(0o600);

/// Content of a file to write. Its permissions are set if it replaces a file.
#[derive(Clone, Copy)]
pub(super) struct Whole<'c> {
    pub(super) content: &'c [u8],
    pub(super) permissions: Option<Mode>,
}

/// A temporary name in the folder. Its drop removes the name.
struct Beside<'f>(&'f OwnedFd, &'f OsStr);

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        // Ignore an error: after a rename the name no longer exists.
        let _ = rustix::fs::unlinkat(self.0, self.1, AtFlags::empty());
    }
}

impl Whole<'_> {
    /// Writes the content, then moves it to `name` in the folder, over the content that `over` allows. Uses the
    /// temporary name `beside`. On systems with unnamed files the file has no name until it is complete, so a
    /// process that is killed earlier leaves nothing.
    pub(super) fn put(
        self,
        folder: &OwnedFd,
        beside: &OsStr,
        name: &OsStr,
        over: Over<'_>,
    ) -> Result<(), OpenFailure> {
        let mode = if self.permissions.is_some() { PART_FILE } else { NEW_FILE };
        if let Some(file) = nameless(folder, mode) {
            self.fill(&file)?;
            let is_new = matches!(over, Over::Nothing);
            // A link fails if the name exists, so a file that must be new needs no temporary name.
            match link(&file, folder, if is_new { name } else { beside }) {
                Ok(()) if is_new => return Ok(()),
                Ok(()) => return take_name(&Beside(folder, beside), name, over),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // The file system does not support links.
                Err(_) => {}
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, beside, flags, mode)?);
        // Create the guard before the content is written, so that a failed write leaves no file.
        let beside = Beside(folder, beside);
        self.fill(&file)?;
        take_name(&beside, name, over)
    }

    fn fill(self, mut file: &File) -> Result<(), OpenFailure> {
        file.write_all(self.content)?;
        if let Some(permissions) = self.permissions {
            file.set_permissions(Permissions::from_mode(permissions.as_raw_mode()))?;
        }
        // Flush before the file gets its name: otherwise a crash could leave the name with incomplete
        // content.
        Ok(file.sync_data()?)
    }
}

fn take_name(beside: &Beside<'_>, name: &OsStr, over: Over<'_>) -> Result<(), OpenFailure> {
    rename_over(beside.0, beside.1, name, over)
}

/// Creates a file without a name. Returns `None` if the file system does not support it, or if the system
/// offers no way to name the file later.
#[cfg(target_os = "linux")]
fn nameless(folder: &OwnedFd, mode: Mode) -> Option<File> {
    let file =
        rustix::fs::openat(folder, ".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode).ok()?;
    let file = File::from(file);
    let id = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    // The file gets its name through `/proc`, which may be missing or may belong to another PID namespace.
    let found = rustix::fs::statat(rustix::fs::CWD, path_of(&file), AtFlags::empty()).ok()?;
    (id(found) == id(rustix::fs::fstat(&file).ok()?)).then_some(file)
}

/// Gives an unnamed file a free name.
#[cfg(target_os = "linux")]
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    // Link by its path in `/proc`, because linking by the handle alone needs a privilege.
    rustix::fs::linkat(rustix::fs::CWD, path_of(file), folder, name, AtFlags::SYMLINK_FOLLOW)
}

/// Returns the path under `/proc` of a handle of this process.
#[cfg(target_os = "linux")]
fn path_of(file: &File) -> String {
    format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))
}

#[cfg(not(target_os = "linux"))]
fn nameless(_folder: &OwnedFd, _mode: Mode) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn link(_file: &File, _folder: &OwnedFd, _name: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}
