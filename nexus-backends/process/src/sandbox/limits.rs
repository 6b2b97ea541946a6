//! Limits on the resources of a program in a sandbox.

use std::fmt;
use std::time::Duration;

/// Limits on the resources of one program in a sandbox and of all its descendants.
///
/// The kernel limits the processes, memory and processor time of all together if a [control
/// group](LimitedBy::Cgroup) is available; otherwise a [watchdog](LimitedBy::Watchdog) does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxLimits {
    /// From its start to its end. Default 10 minutes.
    pub wall: Duration,
    /// Processor time of all processes together. Default 20 minutes.
    pub cpu: Duration,
    /// Processes at once. Default 512.
    pub processes: usize,
    /// Memory of all processes together, in bytes. Default 4 GiB.
    ///
    /// `scratch_bytes` limits files in folders in memory. The watchdog does not see memory that no process has
    /// mapped: a `memfd`, or an unattached System V segment; `file_bytes` limits each such file.
    pub memory_bytes: u64,
    /// Standard output and standard error together, in bytes. Default 256 MiB.
    pub output_bytes: u64,
    /// Bytes stored of each of the two outputs: half from the beginning, half from the end. Default 1 MiB.
    pub kept_bytes: usize,
    /// The largest file that can be written, in bytes; at least 64 KiB. Default 4 GiB.
    ///
    /// The writer gets SIGXFSZ. A writer that ignores the signal, as Python does, gets the error `EFBIG` and
    /// may continue.
    pub file_bytes: u64,
    /// Bytes that may be added to each writable tree, and never more than half of the free space of its disk.
    /// Default 8 GiB. A look at the disk every 20 ms finds a violation; `fallocate` is refused, so that space
    /// is taken no faster than bytes are written.
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

    /// The processor time of one process in whole seconds, which the kernel keeps by itself.
    pub(super) fn cpu_seconds(&self) -> u64 {
        self.cpu.min(LONGEST).as_secs() + 1
    }

    /// The largest file. Bubblewrap writes some itself.
    pub(super) fn file(&self) -> u64 {
        self.file_bytes.clamp(64 << 10, 1 << 60)
    }
}

/// Ten years.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86400);

/// A limit that a program reached, and was ended for.
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
    /// A control group: the kernel lets nothing beyond the limits come into being.
    Cgroup,
    /// A look at all processes every 20 ms: what is beyond the limits is ended, and may have been beyond them for that long.
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
