//! Limits on the resources of a program in a sandbox.

use std::fmt;
use std::time::Duration;

/// Limits on the resources of one program in a sandbox and of all its descendants.
///
/// If a [control group](LimitedBy::Cgroup) is available, the kernel limits the processes, memory and processor time of
/// all together. Otherwise a [watchdog](LimitedBy::Watchdog) does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxLimits {
    /// Time from the program's start to its end. Default 10 minutes.
    pub wall: Duration,
    /// Processor time of all processes together. Default 20 minutes.
    pub cpu: Duration,
    /// Number of processes at the same time. Default 512.
    pub processes: usize,
    /// Memory of all processes together, in bytes. Default 4 GiB.
    ///
    /// `scratch_bytes` limits files in folders in memory. The watchdog does not see memory that no process has
    /// mapped: a `memfd`, or an unattached System V segment; `file_bytes` limits each such file.
    pub memory_bytes: u64,
    /// Standard output and standard error together, in bytes. Default 256 MiB.
    pub output_bytes: u64,
    /// Number of bytes stored of each of the two outputs: half from the beginning, half from the end. Default 1 MiB.
    pub kept_bytes: usize,
    /// Maximum size of a written file, in bytes; at least 64 KiB. Default 4 GiB.
    ///
    /// The writer gets SIGXFSZ. A writer that ignores the signal, as Python does, gets the error `EFBIG` and may
    /// continue.
    pub file_bytes: u64,
    /// Number of bytes that may be added to each writable tree, but never more than half of the free space of its disk.
    /// Default 8 GiB. The disk is checked every 20 ms. `fallocate` is rejected, so space is used no faster than bytes
    /// are written.
    pub disk_bytes: u64,
    /// Size of each folder in memory, in bytes: the home, `/tmp`, `/dev/shm`, each scratch folder. Default 1
    /// GiB. `/run` has 1 MiB.
    pub scratch_bytes: u64,
}

impl Default for SandboxLimits {
    fn default() -> Self {
        Self {
            wall: Duration::from_secs(600),
            cpu: Duration::from_secs(1200),
            processes: 512,
            memory_bytes: 4 << 30,
            output_bytes: 256 << 20,
            kept_bytes: 1 << 20,
            file_bytes: 4 << 30,
            disk_bytes: 8 << 30,
            scratch_bytes: 1 << 30,
        }
    }
}

impl SandboxLimits {
    /// Returns the size of a folder in memory, within the bounds of bubblewrap and of the kernel.
    pub(super) fn scratch(&self) -> u64 {
        self.scratch_bytes.clamp(4 << 10, 1 << 60)
    }

    /// Returns the time limit, within the longest time that a clock can wait.
    pub(super) fn time(&self) -> Duration {
        self.wall.min(LONGEST)
    }

    /// Returns the processor time limit of a single process in whole seconds, which the kernel enforces.
    pub(super) fn cpu_seconds(&self) -> u64 {
        self.cpu.min(LONGEST).as_secs() + 1
    }

    /// Returns the maximum file size. Bubblewrap also writes some files, so it has a minimum.
    pub(super) fn file(&self) -> u64 {
        self.file_bytes.clamp(64 << 10, 1 << 60)
    }
}

/// Ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86400);

/// Limit that a program reached, for which it was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SandboxLimit {
    /// [`SandboxLimits::wall`](field@SandboxLimits::wall).
    Wall,
    /// [`SandboxLimits::cpu`].
    Cpu,
    /// [`SandboxLimits::processes`].
    Processes,
    /// [`SandboxLimits::memory_bytes`].
    Memory,
    /// [`SandboxLimits::output_bytes`].
    Output,
    /// [`SandboxLimits::file_bytes`].
    FileSize,
    /// [`SandboxLimits::disk_bytes`].
    Disk,
}

impl fmt::Display for SandboxLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Wall => "time",
            Self::Cpu => "processor time",
            Self::Processes => "processes",
            Self::Memory => "memory",
            Self::Output => "output",
            Self::FileSize => "file size",
            Self::Disk => "disk space",
        })
    }
}

/// Mechanism that enforced the limits on processes, memory and processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitedBy {
    /// A control group. The kernel never lets usage exceed the limits.
    Cgroup,
    /// A check of all processes every 20 ms. Usage may exceed a limit for that long before the program is ended.
    Watchdog,
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cgroup => "cgroup",
            Self::Watchdog => "watchdog",
        })
    }
}
