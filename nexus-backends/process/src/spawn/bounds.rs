//! The bounds of one process.

use std::time::Duration;

/// The bounds of one process. Source: our own, not the vendors'.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bounds {
    /// Longest line delivered whole, in bytes. Default 64 MiB.
    pub line_bytes: usize,
    /// What is kept of the end of standard error, in bytes. Default 64 KiB.
    pub stderr_tail_bytes: usize,
    /// How much output may wait for the consumer before no more is read, in bytes. The child then waits as soon as
    /// its pipe is full, and nothing is lost. At most twice as much is held, since what was handed to the consumer is
    /// not counted. Default 8 MiB.
    pub queue_bytes: usize,
    /// How long the output may stay open after the child has ended. Default 500 ms.
    pub drain_grace: Duration,
    /// How long the process may live. Default: for ever.
    pub time_limit: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            line_bytes: 64 << 20,
            stderr_tail_bytes: 64 << 10,
            queue_bytes: 8 << 20,
            drain_grace: Duration::from_millis(500),
            time_limit: None,
        }
    }
}
