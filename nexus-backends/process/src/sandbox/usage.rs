//! Resource usage of a program, measured from outside, and the check against its limits.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::limits::{LimitedBy, SandboxLimit, SandboxLimits};
use crate::containment::{Cgroup, Enclosure};
use crate::disk_watch::DiskWatch;
use crate::process_tree::ProcessIdentity;

/// Pause between two checks.
pub(super) const EVERY: Duration = Duration::from_millis(20);
/// Number of bubblewrap's processes: one outside, and the first process inside.
const BUBBLEWRAP: usize = 2;
/// Unit of processor time in `/proc`. Source: Linux, `USER_HZ`.
const TICKS_PER_SECOND: u64 = 100;

/// Measures the usage of a program, and stores the limit that it reached.
#[derive(Debug)]
pub(super) struct Meter {
    limits: SandboxLimits,
    cgroup: Option<Cgroup>,
    disk: Option<DiskWatch>,
    spent: ProcessorTime,
    reached: Arc<Mutex<Option<SandboxLimit>>>,
}

/// The reached limit of a [`Meter`], which outlives it.
#[derive(Clone, Debug)]
pub(super) struct Reached(Arc<Mutex<Option<SandboxLimit>>>);

impl Reached {
    pub(super) fn limit(&self) -> Option<SandboxLimit> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Meter {
    /// Creates a meter. Measures with the cgroup if it is available, otherwise through `/proc`.
    pub(super) fn new(limits: SandboxLimits, cgroup: Option<Cgroup>, disk: Option<DiskWatch>) -> Self {
        Self { limits, cgroup, disk, spent: ProcessorTime::default(), reached: Arc::default() }
    }

    pub(super) fn reached(&self) -> Reached {
        Reached(Arc::clone(&self.reached))
    }

    pub(super) fn limited_by(&self) -> LimitedBy {
        if self.cgroup.is_some() { LimitedBy::Cgroup } else { LimitedBy::Watchdog }
    }

    /// Returns true if a limit is reached.
    pub(super) fn look(&mut self, hold: &mut Enclosure) -> bool {
        let found = match &self.cgroup {
            _ if self.disk.as_ref().is_some_and(DiskWatch::is_over) => Some(SandboxLimit::Disk),
            Some(cgroup) => in_cgroup(cgroup.path(), &self.limits),
            None => in_processes(hold, &self.limits, &mut self.spent),
        };
        if found.is_some() {
            *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = found;
        }
        found.is_some()
    }
}

impl Drop for Meter {
    /// Checks once more, because the kernel may have ended all processes since the last check.
    fn drop(&mut self) {
        if self.disk.as_ref().is_some_and(DiskWatch::look_again) {
            self.reached.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(SandboxLimit::Disk);
        }
        if let Some(cgroup) = &self.cgroup {
            let reached = &mut *self.reached.lock().unwrap_or_else(PoisonError::into_inner);
            *reached = reached.or_else(|| in_cgroup(cgroup.path(), &self.limits));
        }
    }
}

/// Sets the limits of a cgroup.
///
/// # Errors
///
/// An error of the kernel.
pub(super) fn limit(cgroup: &Path, limits: &SandboxLimits) -> std::io::Result<()> {
    // Two processes do not belong to the program: bubblewrap, and its outer process, which was the launcher.
    let write = |name: &str, value: String| fs::write(cgroup.join(name), value);
    write("pids.max", limits.processes.saturating_add(BUBBLEWRAP).to_string())?;
    write("memory.max", limits.memory_bytes.to_string())?;
    // Kernels without swap accounting lack this file.
    let _ = write("memory.swap.max", "0".to_owned());
    let _ = write("memory.oom.group", "1".to_owned());
    Ok(())
}

/// Returns the limit that a cgroup reached. Source: `Documentation/admin-guide/cgroup-v2.rst`: `memory.events`,
/// `pids.events`, `cpu.stat`.
fn in_cgroup(path: &Path, limits: &SandboxLimits) -> Option<SandboxLimit> {
    let count = |file: &str, name: &str| -> u64 {
        let text = fs::read_to_string(path.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
    };
    if count("memory.events", "oom_kill") > 0 {
        return Some(SandboxLimit::Memory);
    }
    if count("pids.events", "max") > 0 {
        return Some(SandboxLimit::Processes);
    }
    (u128::from(count("cpu.stat", "usage_usec")) > limits.cpu.as_micros()).then_some(SandboxLimit::Cpu)
}

fn in_processes(
    hold: &mut Enclosure,
    limits: &SandboxLimits,
    spent: &mut ProcessorTime,
) -> Option<SandboxLimit> {
    let alive = hold.alive();
    if alive.len() > limits.processes.saturating_add(BUBBLEWRAP) {
        return Some(SandboxLimit::Processes);
    }
    let pids = || alive.iter().map(|process| process.identity.pid);
    let used: Vec<ProcessUsage> = pids().filter_map(used).collect();
    let cpu_ticks = spent.ticks(&used);
    if u128::from(cpu_ticks) * 1000 / u128::from(TICKS_PER_SECOND) > limits.cpu.as_millis() {
        return Some(SandboxLimit::Cpu);
    }
    let page = rustix::param::page_size() as u64;
    let is_beyond = |bytes: u64| bytes > limits.memory_bytes;
    // The sum counts shared memory once per process. Only if it exceeds the limit, ask the kernel for each process's
    // share, which is slow.
    let is_over = is_beyond(used.iter().map(|used| used.resident_pages * page).sum())
        && is_beyond(pids().map(|pid| share_of(pid).unwrap_or_default()).sum());
    is_over.then_some(SandboxLimit::Memory)
}

/// Usage of one process.
struct ProcessUsage {
    identity: ProcessIdentity,
    /// Processor time of the process itself.
    own_ticks: u64,
    /// Processor time of the children that it has waited for, and of their children.
    waited_ticks: u64,
    resident_pages: u64,
}

/// Processor time of all processes that were seen.
#[derive(Debug, Default)]
struct ProcessorTime {
    /// Processor time of each process at the last check.
    seen: HashMap<ProcessIdentity, u64>,
    /// Processor time of the processes that had ended by then.
    gone: u64,
}

impl ProcessorTime {
    /// Returns the processor time so far, from all live processes. A parent that waits for a child inherits the child's
    /// time. A parent that lets the kernel reap its child does not; then only the time at the last check counts.
    fn ticks(&mut self, used: &[ProcessUsage]) -> u64 {
        let now: HashMap<_, _> = used.iter().map(|used| (used.identity, used.own_ticks)).collect();
        let gone = self.seen.iter().filter(|(identity, _)| !now.contains_key(identity));
        self.gone += gone.map(|(_, ticks)| ticks).sum::<u64>();
        let own: u64 = now.values().sum();
        let waited: u64 = used.iter().map(|used| used.waited_ticks).sum();
        self.seen = now;
        own + waited.max(self.gone)
    }
}

/// Returns the usage of a process. Source: `proc_pid_stat(5)`: fields 14 to 17, 22 and 24; the name may contain any
/// character.
fn used(pid: u32) -> Option<ProcessUsage> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields =
        fields.split_ascii_whitespace().skip(11).map(|field| field.parse::<u64>().unwrap_or_default());
    let own_ticks = fields.by_ref().take(2).sum();
    let waited_ticks = fields.by_ref().take(2).sum();
    let identity = ProcessIdentity { pid, start_ticks: fields.nth(4)? };
    Some(ProcessUsage { identity, own_ticks, waited_ticks, resident_pages: fields.nth(1)? })
}

/// Returns the memory of one process in bytes, in which each page is divided by the number of processes that share it.
/// Source: `proc_pid_smaps(5)`, `Pss`. If it cannot be read, returns the resident memory.
fn share_of(pid: u32) -> Option<u64> {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else {
        return used(pid).map(|used| used.resident_pages * rustix::param::page_size() as u64);
    };
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cgroup_tells_which_limit_was_reached() {
        let folder = tempfile::tempdir().unwrap();
        let limits = SandboxLimits { cpu: Duration::from_secs(2), ..SandboxLimits::default() };
        let said = |file: &str, text: &str| fs::write(folder.path().join(file), text).unwrap();
        assert_eq!(in_cgroup(folder.path(), &limits), None);
        said("cpu.stat", "usage_usec 1999999\nuser_usec 5000000\n");
        said("pids.events", "max 0\n");
        said("memory.events", "low 0\nhigh 7\nmax 9\noom 0\noom_kill 0\noom_group_kill 0\n");
        assert_eq!(in_cgroup(folder.path(), &limits), None);
        said("cpu.stat", "usage_usec 2000001\n");
        assert_eq!(in_cgroup(folder.path(), &limits), Some(SandboxLimit::Cpu));
        said("pids.events", "max 1\n");
        assert_eq!(in_cgroup(folder.path(), &limits), Some(SandboxLimit::Processes));
        said("memory.events", "oom 1\noom_kill 3\n");
        assert_eq!(in_cgroup(folder.path(), &limits), Some(SandboxLimit::Memory));
    }

    #[test]
    fn a_cgroup_is_told_its_limits() {
        let folder = tempfile::tempdir().unwrap();
        let limits = SandboxLimits { processes: 7, memory_bytes: 1 << 20, ..SandboxLimits::default() };
        limit(folder.path(), &limits).unwrap();
        let said = |file: &str| fs::read_to_string(folder.path().join(file)).unwrap();
        assert_eq!((said("pids.max"), said("memory.max")), ("9".to_owned(), "1048576".to_owned()));
    }

    #[test]
    fn this_program_uses_memory_and_time() {
        let own = used(std::process::id()).unwrap();
        assert!(own.resident_pages > 0);
        assert!(share_of(std::process::id()).unwrap() > 0);
    }
}
