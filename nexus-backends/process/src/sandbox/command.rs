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
    /// Runs the first of `arguments` with the others, in `/`, with empty input. A name without `/` is looked for inside, in the
    /// folders of the `PATH` of its environment. Every process of the machine can read the arguments: no secret.
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

    /// The working folder, by its path inside.
    #[must_use]
    pub fn folder(mut self, inside: impl Into<PathBuf>) -> Self {
        self.folder = inside.into();
        self
    }

    /// The variables. `HOME` (the home inside) and `PATH` (the folders of the system) are added unless they are here; `PWD` is
    /// always the working folder.
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

    /// Ends the program when `token` is cancelled. What it wrote until then is in the outcome.
    #[must_use]
    pub fn cancel(mut self, token: CancelToken) -> Self {
        self.cancel = token;
        self
    }

    /// Runs under an entry of the run registry: what a killed host leaves of it, on a machine that cannot end it by itself, is
    /// swept at a later start, and so are its few files, in which the variables stand. Without an entry they stay in the
    /// folder for temporary files.
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
