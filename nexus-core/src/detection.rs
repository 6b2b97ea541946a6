//! Detection of backends on a machine, for a program that runs without a configuration.
//!
//! Each vendor contributes a [`Detector`]. It looks at a [`Machine`], which is passed in, and returns a [`Detection`]: the backends that
//! could run a turn, and what was found but cannot be used. Detection decides neither who pays nor which backend runs a turn; the router
//! does.

use std::{
    fmt,
    future::Future,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::Pin,
};

use async_trait::async_trait;
use serde_json::{Map, Value};

/// Payer of a backend's turns, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Payment {
    /// A subscription, by a login.
    Plan,
    /// No vendor: a model server on this machine.
    Local,
    /// An API key whose owner pays for each call.
    Metered,
}

/// A backend that was found on the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct DetectedBackend {
    /// Name of its entry in a configuration.
    pub name: String,
    /// Kind of the backend.
    pub kind: String,
    /// Settings of the backend. They contain no secret, but the location of one.
    pub settings: Map<String, Value>,
    /// Payer of its turns.
    pub payment: Payment,
    /// Location, version and login, as a text for the user.
    pub found: String,
}

impl DetectedBackend {
    /// Creates a backend of this kind, which is also the name of its entry. It has no settings.
    pub fn new(kind: impl Into<String>, payment: Payment, found: impl Into<String>) -> Self {
        let kind = kind.into();
        Self { name: kind.clone(), kind, settings: Map::new(), payment, found: found.into() }
    }

    /// Sets the name of the entry.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets a setting.
    #[must_use]
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.settings.insert(key.into(), value.into());
        self
    }
}

/// A program, login, key or server that was found but cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedFinding {
    /// The program, login, key or server.
    pub subject: String,
    /// The reason, with advice if there is any.
    pub reason: String,
}

impl fmt::Display for UnusedFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.reason)
    }
}

/// Result of a detector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detection {
    /// The backends that could run a turn. Of one vendor, the preferred one is first.
    pub backends: Vec<DetectedBackend>,
    /// Findings that cannot be used.
    pub unused: Vec<UnusedFinding>,
    /// Shortest ways to get a backend, as instructions for a person whose machine has none.
    pub ways: Vec<String>,
}

impl Detection {
    /// Adds a finding that cannot be used.
    pub fn unused(&mut self, subject: impl Into<String>, reason: impl Into<String>) {
        self.unused.push(UnusedFinding { subject: subject.into(), reason: reason.into() });
    }
}

/// Looks for the backends of a vendor. It starts a program only for its version and its login status, sends nothing to other machines,
/// and reads no file of a project.
pub type Detector = for<'a> fn(&'a dyn Machine) -> DetectionFuture<'a>;

/// Future of a [`Detector`].
pub type DetectionFuture<'a> = Pin<Box<dyn Future<Output = Detection> + Send + 'a>>;

/// The machine, as detectors see it.
#[async_trait]
pub trait Machine: fmt::Debug + Send + Sync {
    /// Returns the value of an environment variable. An empty variable counts as unset.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the home folder of the person.
    fn home(&self) -> Option<PathBuf>;

    /// Returns true if the path exists. Opens no file.
    fn exists(&self, path: &Path) -> bool;

    /// Finds a program in the folders of the search path.
    fn program(&self, name: &str) -> ProgramSearch;

    /// Returns the folders of the search path that may be used, in the form of the variable `PATH`.
    fn search_path(&self) -> String;

    /// Runs a program to its end, with a bound on its time and output. It gets a built environment, no input, and an unrelated working
    /// folder.
    async fn run(&self, run: ProgramRun<'_>) -> ProgramAnswer;

    /// Returns the state of a login that Nexus owns, by its name. Renews nothing.
    async fn own_login(&self, name: &str) -> OwnLoginState;

    /// Requests a path from a server on a loopback address of this machine, without a credential. Sends nothing to a server of another
    /// user.
    async fn local_server(&self, address: SocketAddr, path: &str) -> LocalAnswer;
}

/// Result of the search for a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramSearch {
    /// The program that may be used.
    pub usable: Option<PathBuf>,
    /// Programs of this name that come before it on the search path and may not be used, each with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// A program to run.
#[derive(Clone, Copy, Debug)]
pub struct ProgramRun<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [&'a str],
    /// Variables that it gets from the host. Without `HOME`, it gets an empty temporary home.
    pub pass: &'a [&'a str],
    /// Further variables.
    pub set: &'a [(&'a str, &'a str)],
}

/// End of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramAnswer {
    /// It ended by itself.
    Ended {
        /// True if its exit status was zero.
        is_success: bool,
        /// Its standard output.
        output: String,
    },
    /// The program did not end within the time limit, and was stopped.
    Slow,
    /// The program could not be started, for this reason.
    Failed(String),
}

/// State of a login that Nexus owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnLoginState {
    /// It can be used.
    Usable,
    /// No such login is stored.
    None,
    /// The login is stored, and cannot be used for this reason.
    Unusable(String),
}

/// Answer of a server on a loopback address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalAnswer {
    /// No server listens.
    Nothing,
    /// A server listens that may not be used, for this reason. Nothing was sent to it.
    Refused(String),
    /// The server answered with this body and a status of success.
    Body(String),
    /// The server did not answer, or answered with an error.
    Failed(String),
}
