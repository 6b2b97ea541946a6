//! The holder of a refresh lock, named in messages when an attempt finds the lock busy.

use std::{
    fmt, fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

/// A process that holds a refresh lock, for messages only. The kernel alone decides whether the lock is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockHolder {
    /// Host name of the machine, empty if unknown.
    host: String,
    pid: u32,
    /// Time at which the process acquired the lock, in seconds since the Unix epoch by its own clock.
    since: u64,
}

impl LockHolder {
    /// Returns this process as the holder, with the current time.
    pub(super) fn here() -> Self {
        Self {
            host: fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned(),
            pid: std::process::id(),
            since: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        }
    }
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if !self.host.is_empty() {
            write!(f, " on {}", self.host)?;
        }
        let began = UNIX_EPOCH.checked_add(Duration::from_secs(self.since));
        match began.and_then(|began| SystemTime::now().duration_since(began).ok()) {
            Some(time) => write!(f, ", for {} s", time.as_secs()),
            None => Ok(()),
        }
    }
}
