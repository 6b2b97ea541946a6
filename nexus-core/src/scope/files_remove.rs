//! Removes a folder with its content from handles, so that no name is resolved twice and no symbolic link is followed.

use std::{
    ffi::{CStr, CString, OsStr},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::{PathAccess, file_id::FileId, file_opener::OpenFailure, path_policy::PathPolicy};

/// Deepest folder that is entered. Each level needs a handle, and a process may have 1,024. Source: our own bound.
const MAX_DEPTH: usize = 256;

/// Flags for opening a folder that is emptied.
const READABLE: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A folder that is being emptied.
struct Emptied {
    folder: OwnedFd,
    path: PathBuf,
    /// Name in the folder above.
    name: CString,
    ahead: Vec<CString>,
}

/// Removes the folder `name` of `parent`, whose path is `real`. Checks each name in it against the rules first. After an
/// error, the rest of the content remains.
pub(super) fn remove_all(
    policy: &PathPolicy,
    parent: &OwnedFd,
    name: &OsStr,
    real: &Path,
) -> Result<(), OpenFailure> {
    let name = CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?;
    let mut open = vec![enter(policy, parent, name, real.to_owned())?];
    loop {
        let depth = open.len();
        let Some(last) = open.last_mut() else { return Ok(()) };
        let Some(name) = last.ahead.pop() else {
            let Some(Emptied { name, folder, .. }) = open.pop() else { return Ok(()) };
            drop(folder);
            let above = open.last().map_or(parent, |above| &above.folder);
            rustix::fs::unlinkat(above, &name, AtFlags::REMOVEDIR)?;
            continue;
        };
        let path = last.path.join(OsStr::from_bytes(name.to_bytes()));
        let status = match rustix::fs::statat(&last.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            // Another program removed the name first.
            Err(Errno::NOENT) => continue,
            status => status?,
        };
        let kind = FileType::from_raw_mode(status.st_mode);
        let identity = FileId { device: status.st_dev as _, number: status.st_ino as _ };
        policy.judge_opened(&path, Some(identity), PathAccess::Write).map_err(OpenFailure::Denied)?;
        if kind != FileType::Directory {
            rustix::fs::unlinkat(&last.folder, &name, AtFlags::empty())?;
        } else if depth < MAX_DEPTH {
            let next = enter(policy, &last.folder, name, path)?;
            open.push(next);
        } else {
            return Err(OpenFailure::Denied(format!("it is more than {MAX_DEPTH} folders deep")));
        }
    }
}

/// Opens a folder and lists it. Rejects a mount point, because its content belongs to another file system.
fn enter(policy: &PathPolicy, above: &OwnedFd, name: CString, path: PathBuf) -> Result<Emptied, OpenFailure> {
    let folder = match open_below(above, &name) {
        Err(Errno::XDEV) => {
            let shown = path.strip_prefix(&policy.root).unwrap_or(&path);
            return Err(OpenFailure::Denied(format!("something is mounted at {shown:?}")));
        }
        opened => opened?,
    };
    // List all names before the first removal: removing entries while a folder is read may skip others.
    let mut ahead = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            ahead.push(entry.file_name().to_owned());
        }
    }
    Ok(Emptied { folder, path, name, ahead })
}

fn open_below(above: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(above, name, READABLE, Mode::empty(), resolve) {
            // Kernels before 5.6 lack `openat2`, and some sandboxes forbid it.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
    }
    // `openat` does not reject mount points, so compare devices. This does not detect a bind mount of the
    // same file system.
    let folder = rustix::fs::openat(above, name, READABLE, Mode::empty())?;
    let device = |folder: &OwnedFd| rustix::fs::fstat(folder).map(|status| status.st_dev);
    if device(&folder)? == device(above)? { Ok(folder) } else { Err(Errno::XDEV) }
}
