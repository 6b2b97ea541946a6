//! Access to folders and files by handles: follows no link, and never blocks on a pipe.

use std::{
    fs::{self, File},
    io,
    os::fd::{AsRawFd as _, OwnedFd},
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat},
    io::Errno,
};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder at a path. Fails for a link.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, FOLDER, Mode::empty())?)
}

/// Opens a folder inside another folder. With `force`, the owner first gets permission to enter it.
pub(super) fn open_folder_at(parent: &OwnedFd, name: &[u8], force: bool) -> io::Result<OwnedFd> {
    match rustix::fs::openat(parent, name, FOLDER, Mode::empty()) {
        Err(Errno::ACCESS) if force => {
            let folder = rustix::fs::openat(
                parent,
                name,
                OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            // The mode of an `O_PATH` handle can only be set by its name in `/proc`.
            let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
            Ok(rustix::fs::openat(parent, name, FOLDER, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Opens the folder that contains a path below `root`. Returns it with the last name of the path.
pub(super) fn open_parent<'p>(root: &OwnedFd, path: &'p [u8]) -> io::Result<(OwnedFd, &'p [u8])> {
    let mut folder = root.try_clone()?;
    let mut rest = path;
    while let Some((name, below)) = super::repo::split_once(rest, b'/') {
        folder = open_folder_at(&folder, name, false)?;
        rest = below;
    }
    Ok((folder, rest))
}

/// Opens a regular file for reading. Anything else is closed at once.
pub(super) fn open_file_at(folder: &OwnedFd, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no longer a regular file"))
}

/// Returns the names in a folder, sorted.
pub(super) fn names(folder: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the status of a name.
pub(super) fn stat(folder: &OwnedFd, name: &[u8]) -> io::Result<Stat> {
    Ok(rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the target of a link.
pub(super) fn read_link(folder: &OwnedFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(folder, name, Vec::new())?.into_bytes())
}
