//! Way to reach a server.

use std::{any::Any, fmt};

use async_trait::async_trait;
use nexus_core::redact::Redactor;
use nexus_process::spawn::Invocation;

use super::http::HttpEndpoint;

/// Variables of the host that a program of the user gets, in addition to `PATH` and the language: paths of the user's files.
pub const USER_VARIABLES: [&str; 9] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "XDG_CONFIG_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Prepares the start of one server.
#[async_trait]
pub trait ServerSource: fmt::Debug + Send + Sync + 'static {
    /// Prepares one start. The server is started again after it ended, with a new preparation.
    ///
    /// # Errors
    ///
    /// Reason why the server cannot be started, for a person.
    async fn prepare(&self) -> Result<PreparedServer, String>;
}

/// Server that is ready to start.
#[non_exhaustive]
#[derive(Debug)]
pub enum PreparedServer {
    /// A program that speaks the protocol on its standard input and output.
    Process(Box<PreparedProcess>),
    /// A server that is reached over HTTP.
    Http(Box<HttpEndpoint>),
}

/// Program that is ready to start.
pub struct PreparedProcess {
    pub(super) invocation: Invocation,
    pub(super) redactor: Redactor,
    pub(super) guard: Option<Box<dyn Any + Send + Sync>>,
}

impl PreparedProcess {
    /// Creates a program without secrets. The client opens its input.
    pub fn new(invocation: Invocation) -> Self {
        Self { invocation, redactor: Redactor::default(), guard: None }
    }

    /// Sets the secrets that the program gets. They are removed from all of its texts.
    #[must_use]
    pub fn with_redactor(mut self, redactor: Redactor) -> Self {
        self.redactor = redactor;
        self
    }

    /// Sets a value that must live as long as the process.
    #[must_use]
    pub fn with_guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }
}

impl From<PreparedProcess> for PreparedServer {
    fn from(process: PreparedProcess) -> Self {
        Self::Process(Box::new(process))
    }
}

impl From<HttpEndpoint> for PreparedServer {
    fn from(endpoint: HttpEndpoint) -> Self {
        Self::Http(Box::new(endpoint))
    }
}

impl fmt::Debug for PreparedProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedProcess").field("invocation", &self.invocation).finish_non_exhaustive()
    }
}
