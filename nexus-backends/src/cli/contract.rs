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
use super::process_sandbox::ProcessSandbox;
use super::refusal::unwritable;
use super::startup::StartupWait;
use super::translator::Translator;
use crate::auth::Lease;

/// A vendor's CLI: its capabilities, its availability, and the preparation of one process.
///
/// [`CliBackend`](super::CliBackend) turns it into an [`ExecutionBackend`](nexus_core::ExecutionBackend).
#[async_trait]
pub trait Cli: std::fmt::Debug + Send + Sync + 'static {
    /// Reads the output of one process.
    type Translator: Translator;

    /// See [`ExecutionBackend::capabilities`](nexus_core::ExecutionBackend::capabilities).
    fn capabilities(&self) -> Capabilities;

    /// See [`ExecutionBackend::probe`](nexus_core::ExecutionBackend::probe).
    async fn probe(&self) -> Availability;

    /// Returns advice on how to see the vendor's models, because the driver does not list them.
    ///
    /// Default: the vendor's documentation.
    fn models_advice(&self) -> &'static str {
        "the documentation of its program names them"
    }

    /// Prepares one process: checks the version, borrows the credential, writes the home, and builds arguments and
    /// environment. The turn costs nothing until the process starts.
    ///
    /// The driver has already compared the request with [`Cli::capabilities`], and ensured that its working directory
    /// exists.
    ///
    /// # Errors
    ///
    /// A [`Failure`] whose kind is that of the turn's error, such as
    /// [`NotInstalled`](nexus_core::ErrorKind::NotInstalled).
    async fn prepare(&self, plan: &TurnPlan, attempt: Attempt)
    -> Result<Prepared<Self::Translator>, Failure>;

    /// Returns the files of the conversation that a handle of this backend names.
    /// [`forget`](nexus_core::ExecutionBackend::forget) deletes them, and turns that resume the conversation use them.
    /// The files need not exist.
    ///
    /// Returns `None` if the handle names no conversation of this CLI. A handle may come from any source, so the
    /// implementation must check every part that enters a path.
    ///
    /// Default: the CLI stores no conversations.
    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        let _ = (nexus_home, handle);
        None
    }
}

/// Turn that the driver passes to a CLI.
#[non_exhaustive]
#[derive(Debug)]
pub struct TurnPlan {
    /// Backend that runs the turn.
    pub backend: BackendId,
    /// Entry of the run. Its homes are created here, so a sweep removes them after a crash. Its name marks every
    /// process.
    pub run: RunEntry,
    /// The request of the turn.
    pub request: Arc<TurnRequest>,
    /// Requested effort, clamped to the backend's range.
    pub effort: Option<AppliedEffort>,
    /// The caller's tools, if there are any.
    pub tools: Option<CallerTools>,
    /// True if the host has an approver for calls that the access level neither allows nor forbids.
    pub has_approver: bool,
    /// True if the host also answers questions of the program.
    pub takes_questions: bool,
    /// True if the caller may send inputs to the agent while its turn runs.
    pub is_steered: bool,
    /// Working directory of the process: the request's directory made absolute, or an empty private one.
    pub working_directory: PathBuf,
    /// True if the working directory is private, because the request named none.
    pub is_private_directory: bool,
    /// Folder of all of Nexus's state. Files in its `sessions` outlive a turn.
    pub nexus_home: PathBuf,
    /// Trace context of the turn, in the form of the W3C header `traceparent`.
    pub(crate) trace_parent: Option<String>,
    /// Replacement for a credential that the vendor rejected in this turn.
    pub(crate) renewed: Option<Credential>,
    /// Removes secrets from all output of the turn. It already knows the token of the caller's tools and the
    /// credentials that [`TurnPlan::borrow`] returns. The CLI must add every other secret that it passes to a process.
    pub redactor: Redactor,
}

/// Assumed duration of a turn without a deadline, for the lifetime of a borrowed credential.
pub(super) const USUAL_LIFETIME: Duration = Duration::from_secs(3600);

/// Variable with the trace to which a program belongs. Source: OpenTelemetry specification, environment variables as
/// context propagation carriers. Other programs ignore it.
const TRACEPARENT: &str = "TRACEPARENT";

/// Name of the folder of logins, below `$NEXUS_HOME`.
const LOGINS: &str = "auth";

impl TurnPlan {
    /// Returns the required lifetime of a credential that is borrowed for the turn.
    pub fn lifetime(&self) -> Duration {
        self.request.limits.deadline.unwrap_or(USUAL_LIFETIME)
    }

    /// Borrows a credential from `source` for one process, and redacts it in all output of the turn. After the vendor
    /// has rejected the turn's first credential, returns the replacement.
    ///
    /// # Errors
    ///
    /// Errors of [`CredentialSource::credential`].
    pub async fn borrow(&self, source: &Arc<dyn CredentialSource>) -> Result<Lease, CredentialError> {
        let lease = match &self.renewed {
            Some(renewed) => Lease::of(source, renewed.clone()),
            None => Lease::borrow(source, self.lifetime()).await?,
        };
        // Learn the token before a process can print it.
        self.redactor.learn(lease.credential().token.expose());
        let signing = lease.credential().signing.as_ref();
        signing.and_then(|key| key.session.as_ref()).inspect(|session| self.redactor.learn(session.expose()));
        Ok(lease)
    }

    /// Borrows a further credential, which the driver does not renew.
    pub(crate) async fn borrow_further(
        &self,
        source: &Arc<dyn CredentialSource>,
    ) -> Result<Lease, CredentialError> {
        let lease = Lease::borrow(source, self.lifetime()).await?;
        self.redactor.learn(lease.credential().token.expose());
        Ok(lease)
    }

    /// Creates a private folder for the process, like [`RunEntry::home`].
    ///
    /// # Errors
    ///
    /// [`InvalidRequest`](nexus_core::ErrorKind::InvalidRequest): the folder of the run cannot be written, on any
    /// backend. [`Crashed`](nexus_core::ErrorKind::Crashed): the machine has no file descriptor or no memory left for
    /// it.
    pub fn home(&self) -> Result<PrivateHome, Failure> {
        self.run.home().map_err(|error| unwritable(self.nexus_home.display(), error))
    }

    /// Starts the environment of a process: the host's variables that every child may see, the variables that the
    /// request names, and the trace context of the turn.
    pub fn environment(&self, host: &BTreeMap<String, String>) -> EnvironmentBuilder {
        let host = host.iter().map(|(name, value)| (name.into(), value.into()));
        self.complete(Environment::from_host(host))
    }

    /// Adds the variables that the request names, and the trace context of the turn.
    pub(crate) fn complete(&self, environment: EnvironmentBuilder) -> EnvironmentBuilder {
        let environment = environment.pass(&self.request.environment);
        match &self.trace_parent {
            Some(parent) => environment.with(TRACEPARENT, parent),
            None => environment,
        }
    }

    /// Returns the folder of Nexus's own logins under each of its paths. No tool of a model may access it. It need not
    /// exist.
    pub fn login_folders(&self) -> Vec<PathBuf> {
        let home = std::path::absolute(&self.nexus_home).unwrap_or_else(|_| self.nexus_home.clone());
        let named = home.join(LOGINS);
        // Rules may apply to a path before or after links are resolved, so both forms count. The folder may not exist
        // yet.
        let real = named.canonicalize().or_else(|_| io::Result::Ok(home.canonicalize()?.join(LOGINS)));
        let real = real.ok().filter(|real| *real != named);
        [named].into_iter().chain(real).collect()
    }
}

/// Kind of the process to prepare.
#[non_exhaustive]
#[derive(Debug)]
pub enum Attempt {
    /// The first process.
    First,
    /// A process with a new conversation, because the conversation to resume was lost and the request allows that.
    Fresh,
    /// A process that requests the answer again, because the first answer did not have the required shape.
    Repair {
        /// Instruction for the model.
        instruction: String,
        /// Handle of the conversation to resume, from [`Step::resume`](super::Step::resume).
        resume: ResumeHandle,
        /// Home of the previous process, with its session.
        home: Option<PrivateHome>,
    },
}

/// Everything that one process needs.
#[non_exhaustive]
#[derive(Debug)]
pub struct Prepared<T> {
    /// Description of the process. The driver adds the run, the redactor, the capture and the maximum line length.
    pub invocation: Invocation,
    /// Translator for the output of the process.
    pub translator: T,
    /// Private home of the process. It is removed after the translator has read the vendor's record in it.
    pub home: Option<PrivateHome>,
    /// Sandbox of Nexus around the process.
    pub(crate) sandbox: Option<ProcessSandbox>,
    /// Credential that the process borrows. The turn ends before the credential expires.
    pub(crate) lease: Option<Lease>,
    /// Wait before the process starts.
    pub startup: StartupWait,
    /// The version of the program, if it is known before it runs.
    pub version: Option<String>,
    /// Warnings for the caller before the turn starts, such as an untested version.
    pub warnings: Vec<String>,
}

impl<T> Prepared<T> {
    /// Creates a process without a home, a credential or a wait.
    #[must_use]
    pub fn new(invocation: Invocation, translator: T) -> Self {
        Self {
            invocation,
            translator,
            home: None,
            sandbox: None,
            lease: None,
            startup: StartupWait::none(),
            version: None,
            warnings: Vec::new(),
        }
    }

    /// Sets the home, which is retained until the process has ended and its record was read.
    #[must_use]
    pub fn with_home(mut self, home: PrivateHome) -> Self {
        self.home = Some(home);
        self
    }

    /// Lends the process a credential from [`TurnPlan::borrow`], which is erased when the process has ended. If the
    /// credential expires before the turn's deadline, the deadline moves before its expiry, with a warning.
    ///
    /// If the vendor rejects the credential before the turn had an effect, the driver renews it and prepares another
    /// process. This happens at most once per turn.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets the version of the program, for the provenance.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }
}
