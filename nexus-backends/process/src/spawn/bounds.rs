//! Limits of one process.

use std::time::Duration;

/// Limits of one process. Source: our own, not the vendors'.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// Maximum length of a complete line, in bytes. Default 64 MiB.
    pub line_bytes: usize,
    /// Number of bytes stored from the end of standard error. Default 64 KiB.
    pub stderr_tail_bytes: usize,
    /// Number of bytes of output that may wait for the consumer before reading pauses. The child then blocks once its
    /// pipe is full, and no output is lost. At most twice as many bytes are in memory, because lines that the consumer
    /// has taken do not count, and up to 2 MiB of emptied blocks are retained for further lines. Default 1 MiB: a longer
    /// queue delays a slow consumer, because the lines leave the processor's caches before they are read.
    pub queue_bytes: usize,
    /// Longest time that the output may stay open after the child has ended. Default 500 ms.
    pub drain_grace: Duration,
    /// Longest run time of the process. Default: unlimited.
    pub time_limit: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            line_bytes: 64 << 20,
            stderr_tail_bytes: 64 << 10,
            queue_bytes: 1 << 20,
            drain_grace: Duration::from_millis(500),
            time_limit: None,
        }
    }
}
