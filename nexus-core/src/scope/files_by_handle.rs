//! Files opened from handles of folders, so that no name is looked up twice and no symbolic link is followed.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write as _},
    os::fd::AsFd,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::{
    PathAccess,
    fence::Fence,
    files::{EntryKind, FolderEntry, Trouble, WriteMode},
    files_by_name::part_name,
    path_walk::{Identity, Kind},
};

/// A handle of a folder that serves for names in it, and for nothing else.
#[cfg(any(target_os = "linux", target_os = "android"))]
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A file that may have become something else: neither a link is followed nor a pipe waited for.
const FILE: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Permissions of what is made, before the process's mask. Source: what `std::fs` uses.
const NEW_FILE: Mode = Mode::from_raw_mode(0o666);
const NEW_FOLDER: Mode = Mode::from_raw_mode(0o777);

impl From<Errno> for Trouble {
    fn from(error: Errno) -> Self {
        match error {
            // There was no link when the path was checked.
            Errno::LOOP => Self::Denied("it was changed while it was opened".to_owned()),
            error => Self::Io(error.into()),
        }
    }
}

pub(super) fn open(fence: Option<&Fence>, real: &Path) -> Result<File, Trouble> {
    let (folder, name) = folder_of(real)?;
    let file = File::from(rustix::fs::openat(&folder, name, OFlags::RDONLY | FILE, Mode::empty())?);
    judge(fence, real, &file, PathAccess::Read)?;
    Ok(file)
}

pub(super) fn open_for_writing(fence: Option<&Fence>, real: &Path, mode: WriteMode) -> Result<File, Trouble> {
    let (folder, name) = made_folder_of(fence, real)?;
    let flags =
        OFlags::WRONLY | FILE | if mode == WriteMode::Append { OFlags::APPEND } else { OFlags::empty() };
    let made = rustix::fs::openat(&folder, name, flags | OFlags::CREATE | OFlags::EXCL, NEW_FILE);
    let file = match made {
        Err(Errno::EXIST) if mode != WriteMode::New => {
            File::from(rustix::fs::openat(&folder, name, flags, Mode::empty())?)
        }
        made => File::from(made?),
    };
    judge(fence, real, &file, PathAccess::Write)?;
    if mode == WriteMode::Empty {
        file.set_len(0)?;
    }
    Ok(file)
}

pub(super) fn replace(fence: Option<&Fence>, real: &Path, content: &[u8]) -> Result<(), Trouble> {
    let (folder, name) = made_folder_of(fence, real)?;
    let permissions = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(old) if FileType::from_raw_mode(old.st_mode) == FileType::Directory => {
            return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
        }
        Ok(old) => Some(Mode::from_raw_mode(old.st_mode & 0o777)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error.into()),
    };
    let part = part_name();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | FILE;
    let mut file = File::from(rustix::fs::openat(&folder, &*part, flags, NEW_FILE)?);
    let mut write = || -> io::Result<()> {
        if let Some(permissions) = permissions {
            rustix::fs::fchmod(&file, permissions)?;
        }
        file.write_all(content)?;
        file.sync_data()?;
        // Replaces the name: whatever it has become meanwhile, nothing is followed.
        Ok(rustix::fs::renameat(&folder, &*part, &folder, name)?)
    };
    let written = write();
    if written.is_err() {
        // Whatever is left of it is of no use.
        let _ = rustix::fs::unlinkat(&folder, &*part, AtFlags::empty());
    }
    Ok(written?)
}

pub(super) fn list(fence: Option<&Fence>, real: &Path) -> Result<Vec<FolderEntry>, Trouble> {
    let folder = open_folder(real)?;
    let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(&folder, ".", readable, Mode::empty())?;
    let real = judge_folder(fence, real, &folder, None, PathAccess::Read)?;
    let mut found = Vec::new();
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        if matches!(name, "." | "..") || is_kept_off(fence, &real.join(name)) {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(status) => FileType::from_raw_mode(status.st_mode),
                Err(_) => FileType::Unknown,
            },
            kind => kind,
        };
        let kind = match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Folder,
            FileType::Symlink => EntryKind::Link,
            _ => EntryKind::Other,
        };
        found.push(FolderEntry::new(name.to_owned(), kind));
    }
    Ok(found)
}

pub(super) fn create_folder(fence: Option<&Fence>, real: &Path) -> Result<(), Trouble> {
    let folder = make_folder(real)?;
    judge_folder(fence, real, &folder, None, PathAccess::Write)?;
    Ok(())
}

pub(super) fn remove_file(fence: Option<&Fence>, real: &Path) -> Result<(), Trouble> {
    let (folder, name) = folder_of(real)?;
    judge_folder(fence, real, &folder, Some(name), PathAccess::Write)?;
    Ok(rustix::fs::unlinkat(&folder, name, AtFlags::empty())?)
}

fn is_kept_off(fence: Option<&Fence>, path: &Path) -> bool {
    fence.is_some_and(|fence| fence.rules.rule_against(path).is_some())
}

/// Checks what was opened: what it is, how many names it has, and where it really is.
fn judge(fence: Option<&Fence>, real: &Path, file: &File, access: PathAccess) -> Result<(), Trouble> {
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    if let Some(fence) = fence {
        let kind = Kind::of(&metadata);
        if kind == (Kind::File { names: 0 }) {
            return Err(Trouble::Denied("it was removed while it was opened".to_owned()));
        }
        fence.judge_kind(kind, access).map_err(Trouble::Denied)?;
        let real = real_path(file).unwrap_or_else(|| real.to_owned());
        fence.judge_opened(&real, Identity::of(&metadata), access).map_err(Trouble::Denied)?;
    }
    let flags = rustix::fs::fcntl_getfl(file)?;
    rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?;
    Ok(())
}

/// Checks where an opened folder, or a name in it, really is. The answer is the folder's path.
fn judge_folder(
    fence: Option<&Fence>,
    real: &Path,
    folder: &OwnedFd,
    name: Option<&OsStr>,
    access: PathAccess,
) -> Result<PathBuf, Trouble> {
    let expected = if name.is_some() { real.parent().unwrap_or(real) } else { real };
    let here = real_path(folder).unwrap_or_else(|| expected.to_owned());
    if let Some(fence) = fence {
        let place = name.map_or_else(|| here.clone(), |name| here.join(name));
        fence.judge_opened(&place, None, access).map_err(Trouble::Denied)?;
    }
    Ok(here)
}

/// The folder that holds `real`, and its name there.
fn folder_of(real: &Path) -> Result<(OwnedFd, &OsStr), Trouble> {
    match (real.parent(), real.file_name()) {
        (Some(parent), Some(name)) => Ok((open_folder(parent)?, name)),
        _ => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
    }
}

/// The same; the folder is made if it does not exist.
fn made_folder_of<'p>(fence: Option<&Fence>, real: &'p Path) -> Result<(OwnedFd, &'p OsStr), Trouble> {
    match (real.parent(), real.file_name()) {
        (Some(parent), Some(name)) => {
            let folder = make_folder(parent)?;
            judge_folder(fence, real, &folder, Some(name), PathAccess::Write)?;
            Ok((folder, name))
        }
        _ => Err(io::Error::from(io::ErrorKind::IsADirectory).into()),
    }
}

/// A handle of a folder, made with all that is above it if it does not exist.
fn make_folder(real: &Path) -> Result<OwnedFd, Trouble> {
    match open_folder(real) {
        Err(Errno::NOENT) => {}
        opened => return Ok(opened?),
    }
    match (real.parent(), real.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = make_folder(parent)?;
            match rustix::fs::mkdirat(&parent, name, NEW_FOLDER) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(rustix::fs::openat(&parent, name, FOLDER, Mode::empty())?)
        }
        _ => Err(Errno::NOENT.into()),
    }
}

/// A handle of the folder at `real`, on the way to which there is no symbolic link.
fn open_folder(real: &Path) -> Result<OwnedFd, Errno> {
    let top = rustix::fs::open("/", FOLDER, Mode::empty())?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    match at_once(&top, real) {
        // A kernel before 5.6 does not know the call, and some sandboxes forbid it.
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    name_by_name(top, real)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn at_once(top: &OwnedFd, real: &Path) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let below = real.strip_prefix("/").map_err(|_| Errno::INVAL)?;
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

/// Where what was opened really is, as far as the system tells.
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
