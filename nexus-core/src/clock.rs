//! The wall clock, passed in so that a test need not wait.

use std::{fmt, time::SystemTime};

/// Returns the time, for holds and for the expiry of credentials.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Returns the current time. It may jump forwards or backwards between two calls.
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
