//! Watches the growth of folders on a disk, and reports when it exceeds a limit.
//!
//! The kernel can limit the size of each file, but not of a folder. So the free space of the disk is checked every 20
//! ms, which costs almost nothing. The folder is scanned when the free space falls, and every second. Space that is
//! used outside the folder, for example by a file that was removed while open, appears as free space that falls much
//! more than the folder grows.

use std::{
    collections::HashSet,
    ffi::CStr,
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstatvfs, openat, statat};

/// Pause between two checks of the free space.
const EVERY: Duration = Duration::from_millis(20);
/// Pause between two scans of a folder, if the free space does not fall.
const WALK_EVERY: Duration = Duration::from_secs(1);
/// Pause before the next scan, in multiples of the last scan's duration: a folder of many files is scanned less often.
const WALK_SHARE: u32 = 20;
/// Value of [`WALK_SHARE`] while the free space of the file system falls.
const WALK_SHARE_WHEN_FALLING: u32 = 4;
/// Multiple of the size limit by which the free space may fall. A larger fall ends the run even if no scan saw the folder grow.
const UNSEEN: u64 = 4;
/// The unit of `st_blocks`. Source: `stat(3type)`.
const BLOCK_BYTES: u64 = 512;
/// Maximum depth of scanned folders. Each level holds a descriptor open.
const MAX_DEPTH: usize = 200;
/// Maximum number of files with several names that are counted only once.
const MAX_LINKED: usize = 100_000;

/// Watch over folders, which ends when it is dropped.
#[derive(Debug)]
pub struct DiskWatch {
    shared: Arc<WatchedFolders>,
    thread: thread::Thread,
}

#[derive(Debug)]
struct WatchedFolders {
    is_over: AtomicBool,
    has_ended: AtomicBool,
    folders: Mutex<Vec<WatchedFolder>>,
}

#[derive(Debug)]
struct WatchedFolder {
    path: PathBuf,
    most: u64,
    used_at_start: u64,
    free_at_start: u64,
    walked: Instant,
    took: Duration,
}

impl DiskWatch {
    /// Watches `folders`. Each may grow by `most_bytes`, but never by more than half of the currently free space. Scans
    /// each folder before it returns. Blocks.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(folders: impl IntoIterator<Item = PathBuf>, most_bytes: u64) -> io::Result<Self> {
        let folders = folders.into_iter().map(|path| WatchedFolder::new(path, most_bytes)).collect();
        let shared = Arc::new(WatchedFolders {
            is_over: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            folders: Mutex::new(folders),
        });
        let watching = Arc::clone(&shared);
        let work = move || {
            while !watching.has_ended.load(Ordering::Acquire) && !watching.look() {
                thread::park_timeout(EVERY);
            }
        };
        // Use a thread and not a task, because a scan blocks.
        let handle = thread::Builder::new().name("disk-watch".to_owned()).spawn(work)?;
        Ok(Self { shared, thread: handle.thread().clone() })
    }

    /// Returns true if a limit was exceeded.
    pub fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Acquire)
    }

    /// Waits until a limit is exceeded. Needs a Tokio runtime with time enabled.
    pub async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Checks once more, after the program has ended. Returns true if a limit was exceeded. Blocks.
    pub fn look_again(&self) -> bool {
        self.shared.look()
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        // Wake the thread, so that it ends at once. The drop does not wait for it.
        self.thread.unpark();
    }
}

impl WatchedFolders {
    fn look(&self) -> bool {
        let mut folders = self.folders.lock().unwrap_or_else(PoisonError::into_inner);
        // Once a limit is exceeded, it stays so, even if the program removes its files.
        let is_over = self.is_over.load(Ordering::Acquire) || folders.iter_mut().any(WatchedFolder::look);
        if is_over {
            self.is_over.store(true, Ordering::Release);
        }
        is_over
    }
}

impl WatchedFolder {
    fn new(path: PathBuf, most_bytes: u64) -> Self {
        let began = Instant::now();
        let used_at_start = used(&path, u64::MAX);
        let free_at_start = free(&path).unwrap_or(u64::MAX);
        Self {
            most: most_bytes.min(free_at_start / 2),
            path,
            used_at_start,
            free_at_start,
            walked: Instant::now(),
            took: began.elapsed(),
        }
    }

    fn look(&mut self) -> bool {
        // The free space costs one system call, so check it each time. A scan reads the whole folder.
        let free = free(&self.path).unwrap_or(self.free_at_start);
        let fallen = self.free_at_start.saturating_sub(free);
        if fallen > self.most.saturating_mul(UNSEEN) || free < self.free_at_start / 4 {
            return true;
        }
        let pause = match fallen > self.most / 2 {
            true => self.took.saturating_mul(WALK_SHARE_WHEN_FALLING),
            false => self.took.saturating_mul(WALK_SHARE).max(WALK_EVERY),
        };
        if self.walked.elapsed() < pause {
            return false;
        }
        let began = Instant::now();
        let bound = self.used_at_start.saturating_add(self.most);
        let is_over = used(&self.path, bound) > bound;
        (self.walked, self.took) = (Instant::now(), began.elapsed());
        is_over
    }
}

/// Returns the free space on the disk of a folder that is available to every user, in bytes.
fn free(folder: &Path) -> Option<u64> {
    let opened = open(CWD, folder).ok()?;
    let found = fstatvfs(opened).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns the space used by the files of a folder, each counted once. Stops slightly above `enough` bytes. Follows no
/// link.
fn used(folder: &Path, enough: u64) -> u64 {
    let mut sum = UsedSpace { bytes: 0, enough, linked: HashSet::new() };
    if let Ok(opened) = open(CWD, folder) {
        sum.add(opened.as_fd(), 0);
    }
    sum.bytes
}

struct UsedSpace {
    bytes: u64,
    enough: u64,
    linked: HashSet<(u64, u64)>,
}

impl UsedSpace {
    fn add(&mut self, folder: BorrowedFd<'_>, depth: usize) {
        let Ok(mut entries) = Dir::read_from(folder) else { return };
        while let Some(Ok(entry)) = entries.next() {
            if self.bytes > self.enough {
                return;
            }
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            // The program may remove entries during the scan.
            let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // A file with several names uses its space once. Beyond `MAX_LINKED` each name counts, so the sum is
            // too high and never too low.
            #[allow(clippy::useless_conversion, reason = "the type of a device depends on the machine")]
            let is_counted = found.st_nlink < 2
                || FileType::from_raw_mode(found.st_mode) == FileType::Directory
                || self.linked.len() >= MAX_LINKED
                || self.linked.insert((u64::from(found.st_dev), found.st_ino));
            if is_counted {
                self.bytes += u64::try_from(found.st_blocks).unwrap_or_default() * BLOCK_BYTES;
            }
            if FileType::from_raw_mode(found.st_mode) == FileType::Directory
                && depth < MAX_DEPTH
                && let Ok(below) = open_below(folder, name)
            {
                self.add(below.as_fd(), depth + 1);
            }
        }
    }
}

fn open(from: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(from, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn open_below(from: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(from, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, name: &str, mebibytes: usize) {
        fs::write(folder.join(name), vec![7; mebibytes << 20]).unwrap();
    }

    #[test]
    fn what_is_added_counts_and_what_was_there_does_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        write(folder.path(), "before", 4);
        let watch = DiskWatch::start([folder.path().to_owned()], 3 << 20).unwrap();
        write(folder.path(), "below/one", 2);
        fs::hard_link(folder.path().join("below/one"), folder.path().join("two")).unwrap();
        let looked = |watch: &DiskWatch| {
            watch
                .shared
                .folders
                .lock()
                .unwrap()
                .iter()
                .any(|folder| used(&folder.path, u64::MAX) > folder.used_at_start + folder.most)
        };
        assert!(!looked(&watch), "one file of two names is one file");
        write(folder.path(), "below/three", 2);
        assert!(looked(&watch), "two files of 2 MiB are more than 3 MiB");
        let began = Instant::now();
        while !watch.is_over() {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody saw it");
            thread::sleep(EVERY);
        }
        assert!(watch.look_again());
    }

    #[test]
    fn a_link_that_leads_out_is_not_followed() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(outside.path(), "large", 4);
        let before = used(folder.path(), u64::MAX);
        std::os::unix::fs::symlink(outside.path(), folder.path().join("out")).unwrap();
        assert!(used(folder.path(), u64::MAX) - before < 1 << 20);
    }
}
