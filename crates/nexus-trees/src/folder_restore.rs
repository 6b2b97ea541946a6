//! Writes single files of a snapshot into a person's folder.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::fs::PermissionsExt as _},
};

use nexus_files::FileFault;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

use super::{
    TreeError, TreeErrorKind,
    folder_snapshot::{CheckedOutFolder, FolderSnapshot, is_absent},
    handle,
    refusal::to_path,
    repo::{self, EXECUTABLE, GitEntry, LINK, Repo},
    restore::pending_name,
};

/// Permissions of a new file before the umask, and of an executable one.
const NEW_FILE: u32 = 0o666;
const NEW_PROGRAM: u32 = 0o777;

/// Fails if a file cannot be written because its folder is something else, or because a folder has its name. Checked before anything is
/// recorded or restored.
pub(super) fn check_folders(
    folder: &CheckedOutFolder,
    wanted: &[(Vec<u8>, Option<GitEntry>)],
) -> Result<(), TreeError> {
    let root = folder.open()?;
    let removed: BTreeSet<&[u8]> =
        wanted.iter().filter(|(_, entry)| entry.is_none()).map(|(path, _)| path.as_slice()).collect();
    let kind = |path: &[u8]| {
        let (parent, name) = handle::open_parent(&root, path).ok()?;
        Some(handle::kind(&handle::stat(&parent, name).ok()?))
    };
    let refused = |path: &[u8], what: &str| {
        let message = format!("{:?} {what}, so files cannot be restored there: move it away", to_path(path));
        TreeError::new(TreeErrorKind::Changed, message)
    };
    for (path, _) in wanted.iter().filter(|(_, entry)| entry.is_some()) {
        for above in repo::beginnings(path).filter(|above| !removed.contains(above)) {
            if kind(above).is_some_and(|kind| kind != FileType::Directory) {
                return Err(refused(above, "is no folder any more"));
            }
        }
        // Removing the files below also removes the empty folder, which frees its path for the file.
        let is_below = |removed: &&[u8]| {
            removed.strip_prefix(path.as_slice()).is_some_and(|rest| rest.starts_with(b"/"))
        };
        if kind(path) == Some(FileType::Directory) && !removed.iter().any(is_below) {
            return Err(refused(path, "is a folder"));
        }
    }
    Ok(())
}

/// Gives paths of a folder the content that they have in a snapshot. `None` removes the file at the path, and the folders that
/// become empty. No link is followed, and other files stay.
pub(super) fn put(
    repo: &Repo,
    folder: &CheckedOutFolder,
    snapshot: &FolderSnapshot,
    wanted: &[(Vec<u8>, Option<GitEntry>)],
    file_bytes: u64,
) -> Result<(), TreeError> {
    let root = folder.open()?;
    let failed = |path: &[u8]| {
        let path = folder.path().join(to_path(path));
        move |error: io::Error| {
            let reason = match FileFault::of(&error).explanation() {
                "" => format!(": {error}"),
                _ => String::new(),
            };
            TreeError::from_io(&path, &format!("cannot be restored{reason}"), error)
        }
    };
    // A removed file makes room for a folder of its name, and a removed folder for a file.
    for (path, _) in wanted.iter().rev().filter(|(_, entry)| entry.is_none()) {
        remove(&root, path).map_err(failed(path))?;
    }
    let files: Vec<(&Vec<u8>, &GitEntry)> =
        wanted.iter().filter_map(|(path, entry)| Some((path, entry.as_ref()?))).collect();
    let ids: Vec<&str> = files.iter().map(|(_, entry)| entry.id.as_str()).collect();
    repo.reader()?.blobs(&ids, file_bytes, |at, content| {
        let (path, entry) = files[at];
        write(&root, path, entry.mode, snapshot.mode(path), &content).map_err(failed(path))
    })
}

fn remove(root: &OwnedFd, path: &[u8]) -> io::Result<()> {
    let removed = handle::open_parent(root, path)
        .and_then(|(parent, name)| Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?));
    match removed {
        Err(error) if !is_absent(&error) => return Err(error),
        _ => {}
    }
    let mut above: Vec<&[u8]> = repo::beginnings(path).collect();
    while let Some(folder) = above.pop() {
        let removed = handle::open_parent(root, folder)
            .and_then(|(parent, name)| Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?));
        // A folder with other files stays.
        if removed.is_err() {
            break;
        }
    }
    Ok(())
}

fn write(root: &OwnedFd, path: &[u8], kind: u32, private: Option<u32>, content: &[u8]) -> io::Result<()> {
    for folder in repo::beginnings(path) {
        let (parent, name) = handle::open_parent(root, folder)?;
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(NEW_PROGRAM)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (parent, name) = handle::open_parent(root, path)?;
    let pending = pending_name();
    let written = match kind {
        LINK => Ok(rustix::fs::symlinkat(content, &parent, &*pending)?),
        kind => write_file(&parent, name, &pending, kind == EXECUTABLE, private, content),
    };
    let placed = written.and_then(|()| Ok(rustix::fs::renameat(&parent, &*pending, &parent, name)?));
    if placed.is_err() {
        // It may not exist.
        let _ = rustix::fs::unlinkat(&parent, &*pending, AtFlags::empty());
    }
    placed
}

/// Writes a file beside the file of `name`, with the permissions of that file if it exists.
fn write_file(
    parent: &OwnedFd,
    name: &[u8],
    pending: &[u8],
    is_executable: bool,
    private: Option<u32>,
    content: &[u8],
) -> io::Result<()> {
    let replaced = handle::stat(parent, name).ok().filter(|stat| handle::kind(stat) == FileType::RegularFile);
    let mode = private.or_else(|| replaced.map(|stat| stat.st_mode & 0o777));
    // Without a mode, the umask decides, as for any new file.
    let new = if is_executable { NEW_PROGRAM } else { NEW_FILE };
    let first = if mode.is_some() { 0o600 } else { new };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(parent, pending, flags, Mode::from_raw_mode(first))?);
    file.write_all(content)?;
    let Some(mode) = mode else { return Ok(()) };
    // A reader of the file may also run it.
    let runs = (mode & 0o444) >> 2;
    let mode = if is_executable { mode | runs } else { mode & !0o111 };
    file.set_permissions(fs::Permissions::from_mode(mode))
}
