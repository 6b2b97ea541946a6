//! Clocks and memory of this process.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock that all processes of this machine share.
pub(crate) fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds of processor time that this process has used, its own and the system's for it.
pub(crate) fn processor_ns() -> u64 {
    nanoseconds(ClockId::ProcessCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)).as_nanos() as u64
}

/// Resident memory in bytes: what is in use now, and the peak since [`forget_peak`].
///
/// Source: proc(5).
pub(crate) fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Lets the peak of resident memory start from what is in use now.
///
/// Source: proc(5), `5` resets the peak.
pub(crate) fn forget_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
