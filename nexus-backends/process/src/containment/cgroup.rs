//! A cgroup of its own for one child, where this program's own cgroup can be written.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process_tree::{LiveProcess, live, send};
use crate::run_id::RunId;
use crate::scarcity::is_scarcity;

/// Moves itself, forbids core dumps, then becomes the command. So the child is inside from its first
/// instruction.
const MOVE_AND_BECOME: &str =
    r#"unset PWD OLDPWD SHLVL; ulimit -c 0; echo 0 > "$0/cgroup.procs" && exec "$@""#;
/// Longest time that a drop kills.
const DROP_PATIENCE: Duration = Duration::from_secs(1);
/// Prefix of the folders' names, before the id of the run.
const PREFIX: &str = "nexus-";

/// The cgroup that this program is in, if it may make others below it and they can be killed as a whole.
#[derive(Clone, Debug)]
pub(crate) struct OwnCgroup(PathBuf);

impl OwnCgroup {
    /// Looks for it, and tries it with a process.
    ///
    /// # Errors
    ///
    /// What kept it from being looked for.
    pub(crate) fn find() -> io::Result<Option<Self>> {
        let (mounts, own) =
            (fs::read_to_string("/proc/self/mountinfo")?, fs::read_to_string("/proc/self/cgroup")?);
        let Some(own) = Self::in_tables(&mounts, &own) else { return Ok(None) };
        // Kernels before 5.14 have no such file.
        Ok(own.works_with(&["cgroup.kill"])?.then_some(own))
    }

    /// A place for cgroups that the kernel limits: this program's own, or, since a cgroup that has processes hands no limits on,
    /// the one above it, as a person's session on a machine with systemd has it.
    ///
    /// # Errors
    ///
    /// What kept it from being looked for.
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

    /// Returns true if a cgroup below has these files and accepts a process.
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

/// The cgroup of one child; gone with everyone in it when dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    pub(crate) fn make(own: &OwnCgroup, run: &RunId) -> io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // One run may have several processes, one after the other.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = own.0.join(format!("{PREFIX}{run}-{count:x}"));
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The program to start, and its arguments before those of the child.
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
    // A zombie keeps it for a moment.
    for _ in 0..20 {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                std::thread::sleep(Duration::from_micros(500));
            }
            _ => return,
        }
    }
}

/// Ends what a dead host left in a cgroup of `run`. Returns how many there were, and who is left.
pub(crate) fn end_cgroup(path: &Path, run: &RunId, patience: Duration) -> (usize, Vec<LiveProcess>) {
    // Another program may have written the entry, so only a name of ours leads to a kill.
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !name.starts_with(&format!("{PREFIX}{run}-")) || !path.join("cgroup.procs").exists() {
        return (0, Vec::new());
    }
    let count = members(path).map_or(0, |members| members.len());
    let left = kill(path, patience);
    remove(path);
    (count, left)
}
