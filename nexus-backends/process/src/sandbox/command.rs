//! Command that runs in a sandbox.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;
use nexus_core::CancelToken;

use crate::environment::Environment;
use crate::run_registry::RunEntry;

/// One program to run in a [`Sandbox`](super::Sandbox).
///
/// `Debug` shows neither arguments nor values of variables.
#[derive(Clone)]
pub struct SandboxCommand {
    pub(super) arguments: Vec<OsString>,
    pub(super) folder: PathBuf,
    pub(super) environment: Environment,
    pub(super) stdin: Bytes,
    pub(super) cancel: CancelToken,
    pub(super) entry: Option<RunEntry>,
}

impl SandboxCommand {
    /// Creates a command that runs the first of `arguments` with the others, in `/`, with empty input. A name without
    /// `/` is looked up inside, in the folders of its environment's `PATH`. Every process of the machine can read the
    /// arguments, so they must not contain a secret.
    #[must_use]
    pub fn new(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            folder: "/".into(),
            environment: Environment::empty(),
            stdin: Bytes::new(),
            cancel: CancelToken::new(),
            entry: None,
        }
    }

    /// Sets the working folder, as a path inside.
    #[must_use]
    pub fn folder(mut self, inside: impl Into<PathBuf>) -> Self {
        self.folder = inside.into();
        self
    }

    /// Sets the variables. `HOME` (the home inside) and `PATH` (the folders of the system) are added if they are
    /// missing; `PWD` is always the working folder.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Sets the program's input, followed by its end.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Bytes>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// Ends the program when `token` is cancelled. The outcome contains its output until then.
    #[must_use]
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Runs under an entry of the run registry. If the host is killed on a machine that cannot end the run by itself, a
    /// later sweep ends it. The sweep also removes the run's few files, with the variables if the run was not started yet. Without an entry
    /// these stay in the folder for temporary files.
    #[must_use]
    pub fn entry(mut self, entry: &RunEntry) -> Self {
        self.entry = Some(entry.clone());
        self
    }
}

impl fmt::Debug for SandboxCommand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SandboxCommand")
            .field("program", &self.arguments.first())
            .field("arguments", &self.arguments.len().saturating_sub(1))
            .field("folder", &self.folder)
            .field("environment", &self.environment)
            .field("stdin_bytes", &self.stdin.len())
            .finish_non_exhaustive()
    }
}
