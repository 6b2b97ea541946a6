//! What time it is, as far as a login is concerned.

use std::{fmt, time::SystemTime};

/// Tells the time against which a login's expiry is measured.
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
