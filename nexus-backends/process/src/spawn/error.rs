//! Errors of one process, before and during its run.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::containment::NotContained;
use crate::executable::{Executable, ExecutableError};
use crate::scarcity::{is_scarcity, way_out};

/// Reason why no process was started. Nothing was spent, because no prompt left this program.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist, or cannot be executed.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    /// The file's mode allows execution, but the system cannot run it: it has another machine's format, is empty, or is
    /// a script whose interpreter is missing.
    #[error("{} is not a program that this system can run", .executable.display())]
    WrongFormat {
        /// The file.
        executable: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The working directory does not exist.
    #[error("working directory {} does not exist", .path.display())]
    WorkingDirectoryMissing {
        /// Path as given.
        path: PathBuf,
    },
    /// The working directory is not a directory.
    #[error("working directory {} is not a directory", .path.display())]
    WorkingDirectoryNotADirectory {
        /// Path as given.
        path: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("working directory {} cannot be entered", .path.display())]
    WorkingDirectoryUnusable {
        /// Path as given.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An argument contains a NUL byte, which cannot be passed to a program.
    #[error("argument {position} contains a NUL byte")]
    Argument {
        /// Number of the argument, counted from 1. Its text is not shown.
        position: usize,
    },
    /// Containment is required, but this machine does not support a sufficient kind.
    #[error(transparent)]
    NotContained(#[from] NotContained),
    /// The system refused: too many processes or open files, no memory, or arguments that are too long.
    #[error("the operating system did not start {}{}", .executable.display(), hint(.source))]
    System {
        /// The file.
        executable: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The null device, from which a child without input reads, cannot be opened.
    #[error("/dev/null cannot be opened, but a program without input reads from it")]
    NullDevice(#[source] io::Error),
    /// The folder for the recording of this run cannot be created.
    #[error("the recording cannot be written to {}", .path.display())]
    Capture {
        /// The folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Reason why bytes did not reach the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StdinError {
    /// The child closed its end, or has ended.
    #[error("the child no longer reads its input")]
    ClosedByChild,
    /// This program closed its end: through [`StdinWriter::close`](super::StdinWriter::close), or because the whole
    /// input was given at the start.
    #[error("the input was already closed")]
    ClosedByUs,
    /// The system refused the write.
    #[error("writing the input failed: {0}")]
    System(io::ErrorKind),
}

/// Returns advice for an exhausted resource, to append to the message.
fn hint(error: &io::Error) -> String {
    way_out(error).map(|way_out| format!("; {way_out}")).unwrap_or_default()
}

impl SpawnError {
    /// Returns true if a resource of the machine ran out, so the program itself may work.
    #[must_use]
    pub fn is_scarcity(&self) -> bool {
        match self {
            Self::System { source, .. }
            | Self::NullDevice(source)
            | Self::Capture { source, .. }
            | Self::WorkingDirectoryUnusable { source, .. }
            | Self::Executable(ExecutableError::Unreadable { source, .. }) => is_scarcity(source),
            _ => false,
        }
    }

    /// Returns the error for the system's refusal to start `executable`.
    pub(super) fn of(executable: &Executable, source: io::Error) -> Self {
        let executable = executable.path().to_owned();
        match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            // The file itself existed a moment ago, so its interpreter is missing.
            Some(rustix::io::Errno::NOEXEC | rustix::io::Errno::NOENT | rustix::io::Errno::LIBBAD) => {
                Self::WrongFormat { executable, source }
            }
            _ => Self::System { executable, source },
        }
    }
}
