//! Private folder of one run, which is removed with the run.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nexus_files::{make_private_folder, open_regular};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::run_id::RunId;

/// Longest time that a removal is repeated while processes are still writing.
const REMOVE_PATIENCE: Duration = Duration::from_secs(1);
/// Longest time that a removal spends on very deep folders.
const DEEP_PATIENCE: Duration = Duration::from_secs(10);
/// Depth below which folders are moved up before they are emptied, so that depth costs no descriptors.
const DEEPEST: usize = 32;

/// Folder that only its owner may enter (0700), for one run's configuration and state.
///
/// Dropping it removes it with its content. After a crash, [`sweep`](crate::run_registry::sweep) removes it.
#[derive(Debug)]
pub struct PrivateHome {
    path: PathBuf,
    /// Set if the folder could not be removed, so that the run's entry stays for the sweep.
    is_left: Arc<AtomicBool>,
}

impl PrivateHome {
    /// Creates a new folder for `run` in `parent`. A sweep finds folders below `$NEXUS_HOME/tmp`; see
    /// [`RunEntry::home`](crate::run_registry::RunEntry::home).
    ///
    /// # Errors
    ///
    /// Any error of the file system.
    pub fn below(parent: &Path, run: &RunId) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::path::absolute(parent)?.join(format!("{run}_{count:x}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path, is_left: Arc::default() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Sets `is_left` if the folder cannot be removed when it is dropped.
    pub(crate) fn telling(mut self, is_left: &Arc<AtomicBool>) -> Self {
        self.is_left = Arc::clone(is_left);
        self
    }

    pub(crate) fn belongs_to(name: &OsStr, run: &RunId) -> bool {
        name.to_str().and_then(|name| name.split_once('_')).is_some_and(|(owner, _)| owner == run.as_str())
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a subfolder (0700) with its parents.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `relative` leaves the home; otherwise any error of the file system.
    pub fn folder(&self, relative: impl AsRef<Path>) -> io::Result<PathBuf> {
        let path = self.inside(relative.as_ref())?;
        make_private_folder(&path)?;
        Ok(path)
    }

    /// Writes a new file (0600), and creates its parent folders.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `relative` leaves the home, `AlreadyExists` if the path exists; otherwise any error of the
    /// file system.
    pub fn write(&self, relative: impl AsRef<Path>, content: impl AsRef<[u8]>) -> io::Result<PathBuf> {
        let path = self.inside(relative.as_ref())?;
        if let Some(parent) = path.parent() {
            make_private_folder(parent)?;
        }
        let mut file = open_regular(&path, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(content.as_ref())?;
        Ok(path)
    }

    /// Removes the folder now.
    ///
    /// # Errors
    ///
    /// The last error, if the removal still fails after a second.
    pub fn remove(mut self) -> io::Result<()> {
        // The empty path marks the folder as removed, so that the drop does nothing.
        let removed = remove_tree(&std::mem::take(&mut self.path));
        self.is_left.fetch_or(removed.is_err(), Ordering::Relaxed);
        removed
    }

    fn inside(&self, relative: &Path) -> io::Result<PathBuf> {
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || relative.as_os_str().is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a path in a run's home stays inside it",
            ));
        }
        Ok(self.path.join(relative))
    }
}

impl Drop for PrivateHome {
    fn drop(&mut self) {
        if self.path.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = remove_tree(&self.path) {
            self.is_left.store(true, Ordering::Relaxed);
            tracing::warn!(folder = %self.path.display(), %error, "a run's home could not be removed");
        }
    }
}

/// Removes a folder and its content; a missing folder is a success. Changes the mode of folders that it must not read,
/// follows no link, and retries while a process still writes. Blocks.
///
/// # Errors
///
/// The last error, if the removal still fails after a second.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let until = Instant::now() + REMOVE_PATIENCE;
    let mut pause = Duration::from_millis(1);
    loop {
        match remove_once(path) {
            Ok(()) => return Ok(()),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) if Instant::now() >= until => return Err(error.into()),
            Err(_) => {}
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

fn remove_once(path: &Path) -> Result<(), Errno> {
    let root = match open_folder(CWD, path.as_os_str()) {
        Ok(root) => root,
        // If a file or a link has replaced the folder, remove it itself.
        Err(Errno::NOTDIR | Errno::LOOP) => return unlinkat(CWD, path, AtFlags::empty()),
        Err(error) => return Err(error),
    };
    // Each round reduces the depth. The time limit matters only on a slow disk.
    let until = Instant::now() + DEEP_PATIENCE;
    let moved = Cell::new(0);
    loop {
        let before = moved.get();
        empty(&root, &root, 0, &moved)?;
        if moved.get() == before {
            return unlinkat(CWD, path, AtFlags::REMOVEDIR);
        }
        if Instant::now() >= until {
            return Err(Errno::NOTEMPTY);
        }
    }
}

/// Empties one folder as far as possible. Moves folders that are too deep up into `root`, and counts them.
fn empty(root: &OwnedFd, folder: &OwnedFd, depth: usize, moved: &Cell<u64>) -> Result<(), Errno> {
    let mut first_error = None;
    for (name, is_folder) in entries(folder)? {
        let done = if is_folder {
            remove_folder(root, folder, &name, depth, moved)
        } else {
            unlinkat(folder, &name, AtFlags::empty())
        };
        if let Err(error) = done
            && error != Errno::NOENT
        {
            // Continue after an error, so that as little as possible stays.
            first_error.get_or_insert(error);
        }
    }
    first_error.map_or(Ok(()), Err)
}

fn remove_folder(
    root: &OwnedFd,
    parent: &OwnedFd,
    name: &OsStr,
    depth: usize,
    moved: &Cell<u64>,
) -> Result<(), Errno> {
    static MOVED: AtomicU64 = AtomicU64::new(0);
    if depth >= DEEPEST {
        let count = MOVED.fetch_add(1, Ordering::Relaxed);
        moved.set(moved.get() + 1);
        return renameat(parent, name, root, format!(".deep-{}-{count}", std::process::id()));
    }
    let folder = open_folder(parent, name)?;
    empty(root, &folder, depth + 1, moved)?;
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn entries(folder: &OwnedFd) -> Result<Vec<(OsString, bool)>, Errno> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Directory => true,
            FileType::Unknown => statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
            _ => false,
        };
        found.push((name, is_folder));
    }
    Ok(found)
}

/// Opens a folder for emptying. Grants missing rights first.
fn open_folder(parent: impl std::os::fd::AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(&parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            unlock(&parent, name)?;
            openat(&parent, name, flags, Mode::empty())?
        }
        other => other?,
    };
    // The folder can be read but not written or entered: the owner may grant itself these rights.
    let rights = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
    if !rights.contains(Mode::RWXU) {
        rustix::fs::fchmod(&folder, Mode::RWXU)?;
    }
    Ok(folder)
}

/// Grants the owner all rights on a folder that cannot be opened. Never follows a link.
#[cfg(target_os = "linux")]
fn unlock(parent: impl std::os::fd::AsFd, name: &OsStr) -> Result<(), Errno> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(parent, name, flags, Mode::empty())?;
    // `fchmod` rejects an `O_PATH` handle, and `chmod` by name would follow a link that replaced the folder.
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    rustix::fs::chmod(path, Mode::RWXU)
}

#[cfg(not(target_os = "linux"))]
fn unlock(parent: impl std::os::fd::AsFd, name: &OsStr) -> Result<(), Errno> {
    rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::SYMLINK_NOFOLLOW)
}

/// Creates an owner-only file at a path that does not exist.
pub(crate) fn private_file(path: &Path) -> io::Result<fs::File> {
    open_regular(path, OpenOptions::new().write(true).create_new(true))
}
