//! The mark of a run. Every descendant of a child inherits it, and cannot remove it by changing its environment,
//! session or parent.
//!
//! The mark is a resource limit, which a process inherits over `fork` and `exec`, cannot raise again without privilege,
//! and any user may read of any process. It is `RLIMIT_RTTIME`, the processor time that a real-time process may use
//! without a system call. The values are about 73,000 years, so the mark limits no process.
//!
//! Linux only.

use crate::run_id::RunId;

/// Number of bits of the limit that identify the run.
const NAME_BITS: u32 = 48;
/// Highest bit of the first mark. A run within a run uses a lower bit, because limits can only shrink.
const FIRST_BIT: u32 = 61;

/// Mark of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunTag(u64);

impl RunTag {
    /// Returns the mark of `run`, which is a pure function of its name.
    pub(crate) fn of(run: &RunId) -> Self {
        // FNV-1a. Source: draft-eastlake-fnv, 64 bits.
        let hash = run.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self((hash ^ (hash >> NAME_BITS)) & ((1 << NAME_BITS) - 1))
    }

    fn is_in(self, limit: u64) -> bool {
        limit != u64::MAX && limit >> NAME_BITS != 0 && limit & ((1 << NAME_BITS) - 1) == self.0
    }

    /// Returns the soft and hard limit of a child; `None` if the host's own limit leaves no room for a mark.
    #[cfg(target_os = "linux")]
    pub(super) fn limit(self) -> Option<(u64, u64)> {
        use rustix::process::{Resource, getrlimit};
        let outer = getrlimit(Resource::Rttime).maximum;
        let bit =
            outer.map_or(FIRST_BIT, |outer| outer.checked_ilog2().unwrap_or_default().saturating_sub(1));
        let mark = (1 << bit) | self.0;
        // Keep the hard limit, which may be the mark of a run that contains this program.
        (bit >= NAME_BITS).then(|| (mark, outer.unwrap_or(mark)))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn limit(self) -> Option<(u64, u64)> {
        None
    }

    /// Marks a child that was just started. Returns true on success.
    #[cfg(target_os = "linux")]
    pub(crate) fn mark(self, child: u32) -> bool {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else { return false };
        self.limit().is_some_and(|(soft, hard)| {
            let limit = Rlimit { current: Some(soft), maximum: Some(hard) };
            prlimit(Some(pid), Resource::Rttime, limit).is_ok()
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn mark(self, _child: u32) -> bool {
        false
    }

    /// Returns true if the process has this mark; `None` if this user must not read it.
    pub(crate) fn is_on(self, pid: u32) -> Option<bool> {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let values = limits.lines().find_map(|line| line.strip_prefix("Max realtime timeout"))?;
        let mut limits = values.split_ascii_whitespace().filter_map(|value| value.parse().ok());
        Some(limits.any(|limit| self.is_in(limit)))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_starts_has_its_mark_and_nobody_elses() {
        let (run, other) = (RunId::new(), RunId::new());
        let mut child = std::process::Command::new("sh")
            .args(["-c", "read go; env -i setsid sleep 20 & echo $!; wait"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(RunTag::of(&run).mark(child.id()));
        drop(child.stdin.take());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
            .unwrap();
        let below: u32 = line.trim().parse().unwrap();
        assert_eq!(RunTag::of(&run).is_on(below), Some(true));
        assert_eq!(RunTag::of(&other).is_on(below), Some(false));
        assert_eq!(RunTag::of(&run).is_on(std::process::id()), Some(false));
        let pid = |pid: u32| rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid(below), rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}
