//! The time, passed in so that a test need not wait.

use std::{fmt, time::SystemTime};

/// Tells the time by which holds are kept and credentials end.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time now. It may step either way between two calls.
    fn now(&self) -> SystemTime;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
