//! The interface of a vendor's CLI to the driver: its capabilities, and the preparation of one process.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{
    AppliedEffort, Availability, BackendId, Capabilities, Credential, CredentialError, CredentialSource,
    ResumeHandle, TurnRequest, harness::Failure, redact::Redactor,
};
use nexus_process::environment::{Environment, EnvironmentBuilder};
use nexus_process::private_home::PrivateHome;
use nexus_process::run_registry::RunEntry;
use nexus_process::spawn::Invocation;

use super::caller_tools::CallerTools;
use super::kept::KeptConversation;
use super::refusal::unwritable;
use super::startup::StartupWait;
use super::translator::Translator;
use crate::auth::Lease;

/// A vendor's CLI: what it can do, whether it is there, and how one process of it is prepared.
///
/// [`CliBackend`](super::CliBackend) makes an [`ExecutionBackend`](nexus_core::ExecutionBackend) of it.
#[async_trait]
pub trait Cli: std::fmt::Debug + Send + Sync + 'static {
    /// Reads the output of one process.
    type Translator: Translator;

    /// See [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// See [`ExecutionBackend::probe`](nexus_core::ExecutionBackend::probe).
    async fn probe(&self) -> Availability;

    /// Makes everything ready for one process: version checked, credential borrowed, home written, arguments
    /// and environment built. Nothing is spent yet.
    ///
    /// The request has been held against [`Cli::capabilities`] and its working directory exists.
    ///
    /// # Errors
    ///
    /// A [`Failure`] whose kind is that of the turn's error, such as
    /// [`NotInstalled`](nexus_core::ErrorKind::NotInstalled).
    async fn prepare(&self, plan: &TurnPlan, attempt: Attempt)
    -> Result<Prepared<Self::Translator>, Failure>;

    /// Files of the conversation that a handle of this backend names:
    /// [`forget`](nexus_core::ExecutionBackend::forget) deletes them, and turns that resume the conversation
    /// work in them. They need not exist. Returns `None` if the handle names no conversation of this CLI. A
    /// handle may come from anywhere, so every part that enters a path is checked.
    ///
    /// Default: no conversation is stored.
    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        let _ = (nexus_home, handle);
        None
    }
}

/// A turn as the driver hands it to a CLI.
#[non_exhaustive]
#[derive(Debug)]
pub struct TurnPlan {
    /// The backend that runs it.
    pub backend: BackendId,
    /// The run: its homes are made here, so that a crash leaves nothing; its name marks every process.
    pub run: RunEntry,
    /// The request of the turn.
    pub request: Arc<TurnRequest>,
    /// The effort asked for, clamped to the backend's range.
    pub effort: Option<AppliedEffort>,
    /// The caller's tools, if there are any.
    pub tools: Option<CallerTools>,
    /// True if the host can be asked about calls that its level neither allows nor forbids.
    pub has_approver: bool,
    /// True if the caller may send inputs to the agent while its turn runs.
    pub is_steered: bool,
    /// Working directory of the process: the request's directory made absolute, or an empty private one.
    pub working_directory: PathBuf,
    /// True if the working directory is a private one that the request did not name.
    pub is_private_directory: bool,
    /// The folder of everything that Nexus keeps: `sessions` in it outlives a turn.
    pub nexus_home: PathBuf,
    /// Credential that replaces one that the vendor rejected in this turn.
    pub(crate) renewed: Option<Credential>,
    /// Removes secrets from all output of the turn. It knows the token of the caller's tools and the
    /// credentials that [`TurnPlan::borrow`] lends; any other secret that a process gets has to be added.
    pub redactor: Redactor,
}

/// Assumed duration of a turn without a deadline, when a credential is borrowed for it.
pub(super) const USUAL_LIFETIME: Duration = Duration::from_secs(3600);

/// The folder of the logins, below `$NEXUS_HOME`.
const LOGINS: &str = "auth";

impl TurnPlan {
    /// Required lifetime of a credential that is borrowed for the turn.
    pub fn lifetime(&self) -> Duration {
        self.request.limits.deadline.unwrap_or(USUAL_LIFETIME)
    }

    /// Borrows a credential of `source` for one process, and removes it from all output of the turn. In the
    /// second try of a turn whose first credential was rejected, it returns the renewed one.
    ///
    /// # Errors
    ///
    /// Those of [`CredentialSource::credential`].
    pub async fn borrow(&self, source: &Arc<dyn CredentialSource>) -> Result<Lease, CredentialError> {
        let lease = match &self.renewed {
            Some(renewed) => Lease::of(source, renewed.clone()),
            None => Lease::borrow(source, self.lifetime()).await?,
        };
        self.redactor.learn(lease.credential().token.expose());
        Ok(lease)
    }

    /// Makes a private folder for the process, as [`RunEntry::home`] does.
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](nexus_core::ErrorKind::InvalidRequest): the folder of the run cannot be written, on any backend.
    /// [`Crashed`](nexus_core::ErrorKind::Crashed): the machine has no descriptor or no memory left for it.
    pub fn home(&self) -> Result<PrivateHome, Failure> {
        self.run.home().map_err(|error| unwritable(self.nexus_home.display(), error))
    }

    /// Starts the environment of a process: what every child may see of the host's, and the variables that the request names.
    pub fn environment(&self, host: &BTreeMap<String, String>) -> EnvironmentBuilder {
        let host = host.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::from_host(host).pass(&self.request.environment)
    }

    /// The folder with the logins of Nexus's own, by each name it goes by: no tool of a model has any business there.
    /// It may not exist.
    pub fn login_folders(&self) -> Vec<PathBuf> {
        let home = std::path::absolute(&self.nexus_home).unwrap_or_else(|_| self.nexus_home.clone());
        let named = home.join(LOGINS);
        let real = named.canonicalize().or_else(|_| io::Result::Ok(home.canonicalize()?.join(LOGINS)));
        let real = real.ok().filter(|real| *real != named);
        [named].into_iter().chain(real).collect()
    }
}

/// Kind of the process to prepare.
#[non_exhaustive]
#[derive(Debug)]
pub enum Attempt {
    /// The first.
    First,
    /// The conversation to resume was lost, and the request says to start afresh.
    Fresh,
    /// A process that asks again, because the answer did not have the required shape.
    Repair {
        /// Instruction for the model.
        instruction: String,
        /// Conversation to resume, as [`Step::resume`](super::Step::resume) named it.
        resume: ResumeHandle,
        /// The home of the process before, with its session in it.
        home: Option<PrivateHome>,
    },
}

/// Everything that one process needs.
#[non_exhaustive]
#[derive(Debug)]
pub struct Prepared<T> {
    /// The process to be. The driver adds the run, the redactor, the capture and the line bound.
    pub invocation: Invocation,
    /// Reads its output.
    pub translator: T,
    /// Its private home; removed once the translator has read what the process left in it.
    pub home: Option<PrivateHome>,
    /// The credential that the process is lent. The turn ends before it does.
    pub(crate) lease: Option<Lease>,
    /// Wait before it starts.
    pub startup: StartupWait,
    /// The version of the program, if it is known before it runs.
    pub version: Option<String>,
    /// Warnings for the caller before the turn starts, such as an untested version.
    pub warnings: Vec<String>,
}

impl<T> Prepared<T> {
    /// A process that needs no home, no credential and no wait.
    #[must_use]
    pub fn new(invocation: Invocation, translator: T) -> Self {
        Self {
            invocation,
            translator,
            home: None,
            lease: None,
            startup: StartupWait::none(),
            version: None,
            warnings: Vec::new(),
        }
    }

    /// Keeps this home until the process is gone and its record was read.
    #[must_use]
    pub fn with_home(mut self, home: PrivateHome) -> Self {
        self.home = Some(home);
        self
    }

    /// Lends the process a credential, of [`TurnPlan::borrow`], which is taken back when the process is gone. The turn's
    /// deadline is moved to before its end, with a warning. Where the vendor refuses it before the turn had an effect, the
    /// driver has it renewed, and prepares another process, once in a turn.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Tells the version of the program, for the provenance.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}
