//! Writes to a person's repository: the ref that retains the base, and the refs that a landing moves.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::{
        fd::AsRawFd as _,
        unix::fs::{MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use super::{CommitId, Git, TreeError, project::Repository};

/// Time that a lock must stay unchanged after git was killed to count as its own. Git has one for milliseconds.
const DEAD_LOCK: Duration = Duration::from_secs(1);

/// Moves a ref of the person's repository if its target is `old` (`None`: if it does not exist). Returns git's message if it
/// does not.
///
/// Runs no hook, not even the one for reference transactions. If git is killed meanwhile, its locks are removed.
pub(super) fn move_ref(
    git: &Git,
    repository: &Repository,
    name: &str,
    new: Option<&CommitId>,
    old: Option<&CommitId>,
    settings: &[String],
) -> Result<Result<(), String>, TreeError> {
    let locks = Locks::before(repository, name);
    let length = new.or(old).map_or(40, |id| id.as_str().len());
    let old = old.map_or_else(|| "0".repeat(length), ToString::to_string);
    let command =
        git.command_with(repository.git_dir(), "update-ref", settings).args(["--no-deref", "-m", "nexus"]);
    let command = match new {
        Some(new) => command.args([name, new.as_str(), &old]),
        None => command.args(["-d", name, &old]),
    };
    let ended = command.outcome(b"").and_then(|(ended, _)| ended.refusal());
    if ended.is_err() {
        locks.remove_new();
    }
    ended.map(|words| words.map_or(Ok(()), Err))
}

/// Removes the lock of a ref that only this tree uses.
pub(super) fn remove_own_lock(repository: &Repository, name: &str) {
    // If the removal fails, the next git reports the lock.
    let _ = fs::remove_file(repository.common_dir().join(format!("{name}.lock")));
}

/// Locks that moving a ref can take. The value identifies a lock that existed before.
struct Locks(BTreeMap<PathBuf, Option<u64>>);

impl Locks {
    fn before(repository: &Repository, name: &str) -> Self {
        let (own, common) = (repository.git_dir(), repository.common_dir());
        let paths = [
            common.join(format!("{name}.lock")),
            own.join("HEAD.lock"),
            common.join("HEAD.lock"),
            common.join("packed-refs.lock"),
            common.join("packed-refs.new"),
            common.join("reftable/tables.list.lock"),
            own.join("reftable/tables.list.lock"),
        ];
        Self(paths.into_iter().map(|path| (path.clone(), inode(&path))).collect())
    }

    /// Removes the locks that a dead git left. A live git removes its own locks.
    fn remove_new(self) {
        let found: Vec<(PathBuf, u64)> = self
            .0
            .into_iter()
            .filter_map(|(path, before)| {
                let now = inode(&path).filter(|now| before != Some(*now))?;
                Some((path, now))
            })
            .collect();
        let began = Instant::now();
        let is_there = || found.iter().any(|(path, was)| inode(path) == Some(*was));
        while is_there() && began.elapsed() < DEAD_LOCK {
            thread::sleep(Duration::from_millis(20));
        }
        for (path, _) in found.iter().filter(|(path, was)| inode(path) == Some(*was)) {
            // If the removal fails, the next git reports the lock.
            let _ = fs::remove_file(path);
        }
    }
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// Copies a file to a free name: completely, or not at all, even if this process is killed. Returns true if the name was
/// free.
pub(super) fn place(from: &Path, to: &Path, mode: u32) -> io::Result<bool> {
    let folder = to.parent().unwrap_or(Path::new("/"));
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let mut source = File::open(from)?;
    let placed = match rustix::fs::openat(CWD, folder, flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => {
            let mut file = File::from(file);
            fill(&mut source, &mut file, mode)?;
            let name = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, name, CWD, to, AtFlags::SYMLINK_FOLLOW)
        }
        // The file system has no unnamed files. Use a temporary name that git cleans up by itself.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOENT) => {
            let pending = folder.join(format!("tmp_{}", nexus_files::random_name()));
            let filled = File::create_new(&pending).and_then(|mut file| fill(&mut source, &mut file, mode));
            let placed = filled.map(|()| rustix::fs::linkat(CWD, &pending, CWD, to, AtFlags::empty()));
            let _ = fs::remove_file(&pending);
            placed?
        }
        Err(error) => return Err(error.into()),
    };
    match placed {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Copies the content and time of a file, and sets its mode. An index needs its time: see
/// [`copy_index`](super::uncommitted::copy_index).
fn fill(source: &mut File, file: &mut File, mode: u32) -> io::Result<()> {
    io::copy(source, file)?;
    file.set_modified(source.metadata()?.modified()?)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.sync_all()
}
