//! End of a turn's process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Exit of a process.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessExit {
    /// The process exited with this code.
    Code(i32),
    /// This signal ended the process.
    Signal(i32),
    /// The exit is unknown.
    Unknown,
}

impl fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::Unknown => f.write_str("an unknown end"),
        }
    }
}

/// A process of the turn that could not be ended.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survivor {
    /// Process id.
    pub pid: u32,
    /// Name of the process, as the system shows it.
    pub name: String,
}

impl Survivor {
    /// Creates a process that still runs.
    pub fn new(pid: u32, name: impl Into<String>) -> Self {
        Self { pid, name: name.into() }
    }
}

/// Report on the process that ran a turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Exit of the process, if it ended.
    pub exit: Option<ProcessExit>,
    /// Last part of its standard error, without secrets.
    pub stderr_tail: String,
    /// Processes that could not be ended.
    pub survivors: Vec<Survivor>,
}

impl ProcessReport {
    /// Creates a report without survivors.
    pub fn new(exit: Option<ProcessExit>, stderr_tail: impl Into<String>) -> Self {
        Self { exit, stderr_tail: stderr_tail.into(), survivors: Vec::new() }
    }

    /// Sets the processes that could not be ended.
    #[must_use]
    pub fn with_survivors(mut self, survivors: Vec<Survivor>) -> Self {
        self.survivors = survivors;
        self
    }
}
