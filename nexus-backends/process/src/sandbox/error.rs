//! Errors of running a program in a sandbox.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::scarcity::{is_scarcity, way_out};
use crate::spawn::SpawnError;

/// Reason why a program did not run in a sandbox. No part of the program was executed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// The machine has no bubblewrap.
    #[error(
        "the sandbox needs `bwrap`, which is not installed; install it with `apt-get install bubblewrap` \
         (Debian, Ubuntu), `dnf install bubblewrap` (Fedora), `pacman -S bubblewrap` (Arch) or `apk add \
         bubblewrap` (Alpine)"
    )]
    BubblewrapMissing,
    /// The installed bubblewrap lacks a required option.
    #[error("{} is too old for the sandbox, which needs bubblewrap 0.8: {said}", .program.display())]
    BubblewrapTooOld {
        /// Path of bubblewrap.
        program: PathBuf,
        /// Output of bubblewrap.
        said: String,
    },
    /// The machine has no shell that can close every descriptor.
    #[error("the sandbox needs a shell that can close descriptors; install `bash`: {said}")]
    ShellMissing {
        /// Output of the installed shell, if one is installed.
        said: String,
    },
    /// This user must not create the namespaces that a sandbox needs.
    #[error(
        "the sandbox needs namespaces, which this user may not create: {way_out} (bwrap reported: {said})"
    )]
    NamespacesForbidden {
        /// Setting that forbids it, and the command that allows it.
        way_out: &'static str,
        /// Output of bubblewrap.
        said: String,
    },
    /// A file or folder to show inside cannot be used.
    #[error("{} cannot be put into the sandbox", .path.display())]
    Path {
        /// Path outside.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Path that no sandbox may show.
    #[error("{} cannot be put into the sandbox: {reason}", .path.display())]
    PathRefused {
        /// Path as given.
        path: PathBuf,
        /// Reason for the rejection.
        reason: &'static str,
    },
    /// A mount needs a path that does not exist in a read-only folder.
    #[error(
        "{} does not exist in {}, which is read-only in the sandbox: create it, or make the folder writable",
        .path.display(), .below.display()
    )]
    NoMountPoint {
        /// Path inside.
        path: PathBuf,
        /// Folder outside that should contain the path.
        below: PathBuf,
    },
    /// The command is empty.
    #[error("the command is empty")]
    NoCommand,
    /// The program could not be started inside.
    #[error(
        "{} did not start in the sandbox: {said}; check that the program and the interpreter in its first \
         line exist and are executable",
        .program.display()
    )]
    DidNotStart {
        /// Program as given.
        program: OsString,
        /// Output of bubblewrap.
        said: String,
    },
    /// The working folder does not exist inside.
    #[error("the working folder {} does not exist in the sandbox: {said}", .folder.display())]
    FolderMissing {
        /// Folder as given.
        folder: PathBuf,
        /// Output of bubblewrap.
        said: String,
    },
    /// Bubblewrap failed for another reason.
    #[error("the sandbox could not be created: {said}")]
    Unusable {
        /// Output of bubblewrap.
        said: String,
        /// True if processes, memory or descriptors ran out.
        is_scarcity: bool,
    },
    /// No program is known that can open the network.
    #[error(
        "this program cannot open the network of a sandbox: its `main` has to call `sandbox::open_if_asked` of \
         `nexus_process` first"
    )]
    NoNetworkOpener,
    /// This user must not create the namespaces that a network needs.
    #[error(
        "the network of the sandbox needs `unshare` and rights in a new namespace, which this user lacks: {way_out} (reported: {said})"
    )]
    NetworkForbidden {
        /// Setting that forbids it, and the command that allows it.
        way_out: &'static str,
        /// Output of `unshare`, or of the program that opens the network.
        said: String,
    },
    /// The network could not be opened.
    #[error("the network of the sandbox could not be opened: {said}")]
    NetworkNotOpened {
        /// Output of the program that opens it.
        said: String,
    },
    /// The process that creates the sandbox could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The files that describe the sandbox could not be written.
    #[error("the sandbox could not be prepared in {}{}", .folder.display(), hint(.source))]
    Prepare {
        /// Folder of the files.
        folder: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl SandboxError {
    /// Returns true if a resource of the machine ran out, so a later attempt may work.
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

/// Returns advice for an exhausted resource, to append to the message.
fn hint(error: &io::Error) -> String {
    way_out(error).map(|way_out| format!("; {way_out}")).unwrap_or_default()
}
