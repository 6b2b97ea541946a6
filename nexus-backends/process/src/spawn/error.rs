//! Errors of one process, before and during its run.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::containment::NotContained;
use crate::executable::{Executable, ExecutableError};
use crate::scarcity::{is_scarcity, way_out};

/// Why no process was started. Nothing was spent: no prompt left this program.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist, or cannot be executed.
    #[error(transparent)]
    Executable(#[from] ExecutableError),
    /// The file is executable by its mode, but the system cannot run it: another machine's
    /// format, an empty file, or a script whose interpreter is missing.
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
        /// The path as given.
        path: PathBuf,
    },
    /// The working directory is something else.
    #[error("working directory {} is not a directory", .path.display())]
    WorkingDirectoryNotADirectory {
        /// The path as given.
        path: PathBuf,
    },
    /// The working directory cannot be entered.
    #[error("working directory {} cannot be entered", .path.display())]
    WorkingDirectoryUnusable {
        /// The path as given.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An argument holds a NUL byte, which no program can be given.
    #[error("argument {position} contains a NUL byte")]
    Argument {
        /// Number of the argument, counted from 1. Its text is not shown.
        position: usize,
    },
    /// Containment is required, and this machine has none that is strong enough.
    #[error(transparent)]
    NotContained(#[from] NotContained),
    /// The system refused: too many processes or open files, no memory, arguments too long.
    #[error("the operating system did not start {}{}", .executable.display(), hint(.source))]
    System {
        /// The file.
        executable: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The null device is missing, from which a child without input reads.
    #[error("/dev/null cannot be opened, but a program without input reads from it")]
    NullDevice(#[source] io::Error),
    /// The folder for the record of this run cannot be made.
    #[error("the recording cannot be written to {}", .path.display())]
    Capture {
        /// The folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Why bytes did not reach the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StdinError {
    /// The child closed its end, or ended.
    #[error("the child no longer reads its input")]
    ClosedByChild,
    /// Our end was closed, by [`StdinWriter::close`](super::StdinWriter::close) or because the
    /// input was given whole.
    #[error("the input was already closed")]
    ClosedByUs,
    /// The system refused the write.
    #[error("writing the input failed: {0}")]
    System(io::ErrorKind),
}

/// Advice for a resource that ran out, appended to the message.
fn hint(error: &io::Error) -> String {
    way_out(error).map(|way_out| format!("; {way_out}")).unwrap_or_default()
}

impl SpawnError {
    /// Returns true if a resource of the machine ran out: the program itself may be fine.
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

    /// Says what the system's refusal to start `executable` means.
    pub(super) fn of(executable: &Executable, source: io::Error) -> Self {
        let executable = executable.path().to_owned();
        match source.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            // The file itself was there a moment ago: what is missing is its interpreter.
            Some(rustix::io::Errno::NOEXEC | rustix::io::Errno::NOENT | rustix::io::Errno::LIBBAD) => {
                Self::WrongFormat { executable, source }
            }
            _ => Self::System { executable, source },
        }
    }
}
