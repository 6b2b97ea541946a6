//! What the benches of the fleet share.

#![allow(dead_code, reason = "each bench needs a part of it")]

use std::{fs, path::PathBuf, process::Child, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// A process that is ended with this.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor time of this process so far.
pub(crate) fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// Processor time of a process so far, by the kernel's count of what each of its threads ran, in nanoseconds.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    let tasks = fs::read_dir(PathBuf::from(format!("/proc/{pid}/task")));
    let threads = tasks.into_iter().flatten().flatten().filter_map(|task| {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(threads.sum())
}

pub(crate) fn shown(time: Duration) -> String {
    match time.as_nanos() {
        0..10_000 => format!("{:.2} µs", time.as_secs_f64() * 1e6),
        10_000..1_000_000 => format!("{:.0} µs", time.as_secs_f64() * 1e6),
        1_000_000..1_000_000_000 => format!("{:.2} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.2} s", time.as_secs_f64()),
    }
}

/// What a process has in memory, in bytes.
pub(crate) fn memory_of(pid: u32) -> u64 {
    let text = fs::read_to_string(PathBuf::from(format!("/proc/{pid}/status"))).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}
