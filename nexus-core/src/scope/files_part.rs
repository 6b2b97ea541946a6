//! A future file: written completely before it gets its name.

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

/// Permissions of what is made, before the process's mask. Source: what `std::fs` uses.
pub(super) const NEW_FILE: Mode = Mode::from_raw_mode(0o666);

/// Permissions of what is to replace a file, until it is whole and has that file's own.
const PART_FILE: Mode = Mode::from_raw_mode(0o600);

/// The content of a file that is to be, and its permissions if it has them of another one.
#[derive(Clone, Copy)]
pub(super) struct Whole<'c> {
    pub(super) content: &'c [u8],
    pub(super) permissions: Option<Mode>,
}

/// A name beside the file, which is taken away with this.
struct Beside<'f>(&'f OwnedFd, &'f OsStr);

impl Drop for Beside<'_> {
    fn drop(&mut self) {
        // Renamed by then, or of no use.
        let _ = rustix::fs::unlinkat(self.0, self.1, AtFlags::empty());
    }
}

impl Whole<'_> {
    /// Writes it, then moves it to `name` in the folder, over the content that `over` allows, through the
    /// temporary name `beside`. On systems with unnamed files it has no name until it is complete, so a process
    /// that is killed before leaves nothing.
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
            match link(&file, folder, if is_new { name } else { beside }) {
                Ok(()) if is_new => return Ok(()),
                Ok(()) => return take_name(&Beside(folder, beside), name, over),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // A file system that links nothing.
                Err(_) => {}
            }
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(folder, beside, flags, mode)?);
        let beside = Beside(folder, beside);
        self.fill(&file)?;
        take_name(&beside, name, over)
    }

    fn fill(self, mut file: &File) -> Result<(), OpenFailure> {
        file.write_all(self.content)?;
        if let Some(permissions) = self.permissions {
            file.set_permissions(Permissions::from_mode(permissions.as_raw_mode()))?;
        }
        Ok(file.sync_data()?)
    }
}

fn take_name(beside: &Beside<'_>, name: &OsStr, over: Over<'_>) -> Result<(), OpenFailure> {
    rename_over(beside.0, beside.1, name, over)
}

/// A file without a name; `None` where the file system has none, or the system shows no way to name it later.
#[cfg(target_os = "linux")]
fn nameless(folder: &OwnedFd, mode: Mode) -> Option<File> {
    let file =
        rustix::fs::openat(folder, ".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode).ok()?;
    let file = File::from(file);
    let id = |found: rustix::fs::Stat| (found.st_dev, found.st_ino);
    let found = rustix::fs::statat(rustix::fs::CWD, path_of(&file), AtFlags::empty()).ok()?;
    (id(found) == id(rustix::fs::fstat(&file).ok()?)).then_some(file)
}

/// Gives an unnamed file a free name.
#[cfg(target_os = "linux")]
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    // By its place in `/proc`: by the handle alone it takes a privilege.
    rustix::fs::linkat(rustix::fs::CWD, path_of(file), folder, name, AtFlags::SYMLINK_FOLLOW)
}

/// Path by which the system shows a handle of this process.
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
