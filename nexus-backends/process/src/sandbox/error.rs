//! Why a program did not run in a sandbox.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::scarcity::{is_scarcity, way_out};
use crate::spawn::SpawnError;

/// Why a program did not run in a sandbox. Nothing of it was executed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// There is no bubblewrap on this machine.
    #[error(
        "no `bwrap`, which makes the sandbox; install it with `apt-get install bubblewrap` (Debian, Ubuntu), `dnf install \
         bubblewrap` (Fedora), `pacman -S bubblewrap` (Arch) or `apk add bubblewrap` (Alpine)"
    )]
    BubblewrapMissing,
    /// Its bubblewrap lacks an option that is needed.
    #[error("{} is too old for the sandbox, which needs bubblewrap 0.8: {said}", .program.display())]
    BubblewrapTooOld {
        /// The program.
        program: PathBuf,
        /// What it said.
        said: String,
    },
    /// This machine has no shell that can close every descriptor.
    #[error("no shell that closes descriptors, which the sandbox needs; install `bash`: {said}")]
    ShellMissing {
        /// What the shell said that is there, if there is one.
        said: String,
    },
    /// This user may not make the namespaces that a sandbox consists of.
    #[error(
        "this user may not make namespaces, of which the sandbox consists: {way_out} (bwrap said: {said})"
    )]
    NamespacesForbidden {
        /// What forbids it, and how to allow it.
        way_out: &'static str,
        /// What bubblewrap said.
        said: String,
    },
    /// A file or folder that was to be shown inside cannot be used.
    #[error("{} cannot be put into the sandbox", .path.display())]
    Path {
        /// The path outside.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A path that no sandbox may have.
    #[error("{} cannot be put into the sandbox: {reason}", .path.display())]
    PathRefused {
        /// The path as it was given.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Something is to lie below a folder that cannot be written and does not have the place.
    #[error(
        "{} is not there in {}, which is read-only in the sandbox: make it there, or let the folder be writable",
        .path.display(), .below.display()
    )]
    NoMountPoint {
        /// The path inside.
        path: PathBuf,
        /// The folder outside that it would lie in.
        below: PathBuf,
    },
    /// There is no program to run: the command is empty.
    #[error("the command is empty")]
    NoCommand,
    /// The program could not be started inside.
    #[error(
        "{} did not start in the sandbox: {said}; it, or the interpreter that its first line names, is not there or cannot be \
         executed",
        .program.display()
    )]
    DidNotStart {
        /// The program as it was named.
        program: OsString,
        /// What bubblewrap said.
        said: String,
    },
    /// The working folder is not there inside.
    #[error("the working folder {} is not there in the sandbox: {said}", .folder.display())]
    FolderMissing {
        /// The folder as it was named.
        folder: PathBuf,
        /// What bubblewrap said.
        said: String,
    },
    /// Bubblewrap failed for another reason.
    #[error("the sandbox could not be made: {said}")]
    Unusable {
        /// What it said.
        said: String,
        /// Whether it was for want of processes, memory or descriptors.
        is_scarcity: bool,
    },
    /// The process that makes the sandbox could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The files that describe the sandbox could not be written.
    #[error("the sandbox could not be prepared in {}{}", .folder.display(), hint(.source))]
    Prepare {
        /// Where.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl SandboxError {
    /// Whether the machine was in want of something, so that it may work later.
    #[must_use]
    pub fn is_scarcity(&self) -> bool {
        match self {
            Self::Path { source, .. } | Self::Prepare { source, .. } => is_scarcity(source),
            Self::Unusable { is_scarcity, .. } => *is_scarcity,
            Self::Spawn(error) => error.is_scarcity(),
            _ => false,
        }
    }
}

/// The way out of a want, to follow what was refused.
fn hint(error: &io::Error) -> String {
    way_out(error).map(|way_out| format!("; {way_out}")).unwrap_or_default()
}
