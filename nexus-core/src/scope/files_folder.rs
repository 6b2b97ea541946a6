//! Handles of folders, and the real paths of opened files and folders.

use std::{
    ffi::OsStr,
    io,
    os::fd::AsFd,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{file_opener::OpenFailure, path_key::key_of, path_policy::PathPolicy};

/// Flags for a folder handle that serves only to resolve names in it.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Permissions of a new folder, before the process's umask. Source: the value that `std::fs` uses.
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

/// Returns a handle of the folder that contains `real`, and the name in it.
pub(super) fn folder_of(real: &Path) -> Result<(OwnedFd, &OsStr), OpenFailure> {
    let (parent, name) = parts_of(real)?;
    Ok((open_folder(parent)?, name))
}

pub(super) fn parts_of(real: &Path) -> io::Result<(&Path, &OsStr)> {
    real.parent().zip(real.file_name()).ok_or_else(|| io::ErrorKind::IsADirectory.into())
}

/// Returns a handle of a folder. Creates it and the missing folders above it, but none that is out of scope.
pub(super) fn make_folder(policy: &PathPolicy, real: &Path) -> Result<OwnedFd, OpenFailure> {
    match open_folder(real) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    // Check the deepest folder first, so that nothing is created above a folder that is out of scope.
    if !policy.may_make(real) {
        return Err(OpenFailure::Denied(policy.not_made(real)));
    }
    let (parent, name) = parts_of(real)?;
    let parent = make_folder(policy, parent)?;
    match rustix::fs::mkdirat(&parent, name, NEW_FOLDER) {
        // Another program may have created the name meanwhile. Opening it below rejects a link.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(&parent, name, FOLDER, Mode::empty())?)
}

/// Opens the folder at `real`, a path without symbolic links.
pub(super) fn open_folder(real: &Path) -> Result<OwnedFd, Errno> {
    let top = rustix::fs::open("/", FOLDER, Mode::empty())?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    match at_once(&top, real) {
        // Kernels before 5.6 lack `openat2`, and some sandboxes forbid it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    name_by_name(top, real)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn at_once(top: &OwnedFd, real: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let below = real.strip_prefix("/").map_err(|_| Errno::INVAL)?;
    // `openat2` rejects an empty path.
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(top, below, FOLDER, Mode::empty(), resolve)
}

fn name_by_name(top: OwnedFd, real: &Path) -> Result<OwnedFd, Errno> {
    real.components().try_fold(top, |folder, part| match part {
        Component::RootDir => Ok(folder),
        Component::Normal(name) => rustix::fs::openat(&folder, name, FOLDER, Mode::empty()),
        _ => Err(Errno::INVAL),
    })
}

/// Returns the real path of a handle that was opened at `expected`. It must be the same path, perhaps in another
/// spelling.
pub(super) fn place_of(file: impl AsFd, expected: &Path) -> Result<PathBuf, OpenFailure> {
    // Some systems report no path of a handle. The other checks of the opened file must suffice there.
    let here = real_path(file).unwrap_or_else(|| expected.to_owned());
    if here == expected || key_of(&here) == key_of(expected) { Ok(here) } else { Err(OpenFailure::Changed) }
}

/// Returns the real path of a handle, if the system reports it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn real_path(file: impl AsFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    std::fs::read_link(link).ok().filter(|path| path.is_absolute())
}

#[cfg(any(target_os = "macos", target_os = "ios"))]
fn real_path(file: impl AsFd) -> Option<PathBuf> {
    let path = rustix::fs::getpath(file).ok()?;
    path.into_string().ok().map(PathBuf::from)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "macos", target_os = "ios")))]
fn real_path(_: impl AsFd) -> Option<PathBuf> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_a_folder_follow_no_link() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", root.join("l")).unwrap();
        let top = || rustix::fs::open("/", FOLDER, Mode::empty()).unwrap();
        for (path, is_there) in
            [("a/b", true), ("a", true), (".", true), ("l", false), ("l/b", false), ("c", false)]
        {
            let real = root.join(path);
            assert_eq!(name_by_name(top(), &real).is_ok(), is_there, "{path}");
            assert_eq!(open_folder(&real).is_ok(), is_there, "{path}");
        }
        assert!(matches!(open_folder(&root.join("l/b")), Err(Errno::LOOP | Errno::NOTDIR)));
    }

    #[test]
    fn an_opened_file_tells_where_it_is() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().canonicalize().unwrap();
        let path = root.join("a");
        std::fs::write(&path, "").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        assert!(place_of(&file, &path).is_ok());
        std::fs::rename(&path, root.join("b")).unwrap();
        if cfg!(target_os = "linux") {
            assert!(matches!(place_of(&file, &path), Err(OpenFailure::Changed)));
        }
    }
}
