//! A separate cgroup for one child, if this program's own cgroup is writable.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process_tree::{LiveProcess, live, send};
use crate::run_id::RunId;
use crate::scarcity::is_scarcity;

/// Script that moves itself into the cgroup, forbids core dumps, and then becomes the command. So the child is inside
/// from its first instruction.
const MOVE_AND_BECOME: &str =
    r#"unset PWD OLDPWD SHLVL; ulimit -c 0; echo 0 > "$0/cgroup.procs" && exec "$@""#;
/// Longest time that a drop spends on killing.
const DROP_PATIENCE: Duration = Duration::from_secs(1);
/// Prefix of the cgroups' names, before the id of the run.
const PREFIX: &str = "nexus-";

/// Cgroup of this program, if it allows child cgroups that can be killed as a whole.
#[derive(Clone, Debug)]
pub(crate) struct OwnCgroup(PathBuf);

impl OwnCgroup {
    /// Finds this program's cgroup, and tests it with a process.
    ///
    /// # Errors
    ///
    /// The error that prevented the search.
    pub(crate) fn find() -> io::Result<Option<Self>> {
        let (mounts, own) =
            (fs::read_to_string("/proc/self/mountinfo")?, fs::read_to_string("/proc/self/cgroup")?);
        let Some(own) = Self::in_tables(&mounts, &own) else { return Ok(None) };
        // Kernels before 5.14 lack this file.
        Ok(own.works_with(&["cgroup.kill"])?.then_some(own))
    }

    /// Finds a cgroup in which the kernel can limit child cgroups. It is this program's own, or the one above it, as in
    /// a person's session on a machine with systemd. The second case is needed because a cgroup with processes cannot
    /// delegate limits.
    ///
    /// # Errors
    ///
    /// The error that prevented the search.
    pub(crate) fn find_limiting() -> io::Result<Option<Self>> {
        let (mounts, own) =
            (fs::read_to_string("/proc/self/mountinfo")?, fs::read_to_string("/proc/self/cgroup")?);
        let Some(own) = Self::in_tables(&mounts, &own) else { return Ok(None) };
        let above = own.0.parent().filter(|above| above.join("cgroup.procs").exists());
        let above = above.map(|above| Self(above.to_owned()));
        for place in [Some(own), above].into_iter().flatten() {
            match place.works_with(&["cgroup.kill", "memory.max", "pids.max"]) {
                Ok(true) => return Ok(Some(place)),
                Err(error) if is_scarcity(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns true if a child cgroup has these files and accepts a process.
    fn works_with(&self, files: &[&str]) -> io::Result<bool> {
        let cgroup = Cgroup::make(self, &RunId::new())?;
        if !files.iter().all(|file| cgroup.path.join(file).exists()) {
            return Ok(false);
        }
        let (program, arguments) = cgroup.command();
        let mut command = std::process::Command::new(program);
        Ok(command.args(arguments).args(["/bin/sh", "-c", ":"]).output()?.status.success())
    }

    fn in_tables(mounts: &str, own: &str) -> Option<Self> {
        // Source: proc_pid_mountinfo(5): the mount point is field 5, the type is the first after " - ".
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        Some(Self(Path::new(mount).join(path)))
    }
}

/// Cgroup of one child. Dropping it kills the processes in it and removes it.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    pub(crate) fn make(own: &OwnCgroup, run: &RunId) -> io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Several processes of one run may follow each other, so the name needs a count.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = own.0.join(format!("{PREFIX}{run}-{count:x}"));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the program to start, and its arguments before those of the child.
    pub(crate) fn command(&self) -> (&Path, Vec<OsString>) {
        (Path::new("/bin/sh"), vec!["-c".into(), MOVE_AND_BECOME.into(), self.path.clone().into()])
    }

    pub(crate) fn alive(&self) -> Vec<LiveProcess> {
        members(&self.path).unwrap_or_default()
    }

    pub(crate) fn kill(&self, patience: Duration) -> Vec<LiveProcess> {
        kill(&self.path, patience)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = kill(&self.path, DROP_PATIENCE);
        remove(&self.path);
    }
}

/// Returns the live processes of a cgroup and of those below it.
///
/// # Errors
///
/// The machine is short of descriptors or memory.
fn members(path: &Path) -> io::Result<Vec<LiveProcess>> {
    let pids = match fs::read_to_string(path.join("cgroup.procs")) {
        Err(error) if is_scarcity(&error) => return Err(error),
        read => read.unwrap_or_default(),
    };
    let mut all: Vec<_> = pids.lines().filter_map(|pid| live(pid.parse().ok()?)).collect();
    for below in folders(path) {
        all.extend(members(&below)?);
    }
    Ok(all)
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn kill(path: &Path, patience: Duration) -> Vec<LiveProcess> {
    let until = Instant::now() + patience;
    loop {
        let seen = members(path);
        let is_seen = seen.is_ok();
        let alive = seen.unwrap_or_default();
        if alive.is_empty() && is_seen {
            return alive;
        }
        if fs::write(path.join("cgroup.kill"), "1").is_err() {
            alive.iter().for_each(|one| send(one.identity, Signal::KILL));
        }
        if Instant::now() >= until {
            return alive;
        }
        std::thread::sleep(Duration::from_micros(300));
    }
}

fn remove(path: &Path) {
    folders(path).iter().for_each(|below| remove(below));
    // A zombie keeps the cgroup busy for a moment.
    for _ in 0..20 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_micros(500));
            }
            _ => return,
        }
    }
}

/// Kills the processes that a killed program left in a cgroup of `run`. Returns their number, and the processes that are left.
pub(crate) fn end_cgroup(path: &Path, run: &RunId, patience: Duration) -> (usize, Vec<LiveProcess>) {
    // Another program may have written the entry, so kill only in a cgroup with our name.
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.starts_with(&format!("{PREFIX}{run}-")) || !path.join("cgroup.procs").exists() {
        return (0, Vec::new());
    }
    let count = members(path).map_or(0, |members| members.len());
    let left = kill(path, patience);
    remove(path);
    (count, left)
}
