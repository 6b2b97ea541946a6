//! What a backend's author brings to the suite: how his backend is set before a scripted model.

use std::{any::Any, collections::BTreeMap, fmt, path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use nexus_core::{ErrorKind, ExecutionBackend, ModelId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::renewable_token::RenewableToken;
use crate::{
    model_call::{Line, Witness},
    sim::{Scenario, ToolCall},
};

/// Name of the variable in [`Setting::environment`] that holds the credential to use.
pub const TOKEN_VARIABLE: &str = "NEXUS_CONFORMANCE_TOKEN";

/// Name of the variable in [`Setting::environment`] whose value marks the processes of one case. Requests name
/// it in [`TurnRequest::environment`](nexus_core::TurnRequest::environment), so it reaches the agent's tools.
pub const MARK_VARIABLE: &str = "NEXUS_CONFORMANCE_MARK";

/// A backend under test: how it is set before a scripted model, and what has to be known about it.
///
/// Each case stages a backend of its own and may stage several. What the backend talks to is the subject's
/// choice: a [`Sim`](crate::sim::Sim), a fake CLI, or the script read directly.
///
/// This one reads the script directly. [`conformance_tests!`](crate::conformance_tests) makes a test of each case, or
/// `conformance::harness` (feature `harness`) a test program.
///
/// ```
/// use std::sync::Arc;
/// use async_trait::async_trait;
/// use nexus_testkit::conformance::{
///     self, ScriptedModel, Setting, Stage, StageError, Subject, reference::ReferenceBackend,
/// };
///
/// #[derive(Debug)]
/// struct MySubject;
///
/// #[async_trait]
/// impl Subject for MySubject {
///     fn name(&self) -> &str {
///         "my-backend"
///     }
///
///     async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
///         // Answers each call of the model by the script, and is asked afterwards what it saw.
///         let model = Arc::new(ScriptedModel::new(&setting));
///         // Your backend, asking `model`, instead of the reference.
///         let backend = ReferenceBackend::new(Arc::clone(&model), setting.home, setting.environment);
///         Ok(Stage::new(Arc::new(backend), model))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), conformance::Finding> {
/// let report = conformance::run(&MySubject, |case| case.name == "a_short_answer_arrives").await?;
/// assert_eq!(report.failures().count(), 0);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync {
    /// Names it in reports, as in `codex-cli with its real program`.
    fn name(&self) -> &str;

    /// Sets a fresh backend before a model that plays `setting.script`.
    ///
    /// # Errors
    ///
    /// Whatever kept it from being staged. The case fails with it.
    async fn stage(&self, setting: Setting) -> Result<Stage, StageError>;

    /// The model that requests name; `None` leaves it to the backend.
    fn model(&self) -> Option<ModelId> {
        None
    }

    /// How long things take here.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// How the scripted model calls the caller's tool `name`: by the name that this backend gives it.
    fn caller_tool(&self, name: &str, arguments: Value) -> ToolCall {
        ToolCall::function(name, arguments)
    }

    /// Names of tools that this backend offers even at [`ToolAccess::ScopedOnly`](nexus_core::ToolAccess) because
    /// they cannot be taken away: tools that read, write and run nothing, such as one to note a plan.
    fn idle_tools(&self) -> &[&str] {
        &[]
    }

    /// Whether the backend is lent the credential of the setting, so that it could come back or be renewed. Where it is not,
    /// the cases of a lent credential do not apply, and a credential that the witness sees is a failure of every case.
    fn is_lent_credential(&self) -> bool {
        true
    }

    /// Why the case `case` cannot be staged, if it cannot: a weather that the counterpart is not able to make,
    /// never a promise that the backend does not keep. Each is listed in the report, and a declared capability
    /// that no case is left to show fails the suite.
    fn cannot_stage(&self, case: &str) -> Option<String> {
        let _ = case;
        None
    }

    /// Where this backend rightly ends a case with another kind of error than most, and why.
    fn departures(&self) -> &[Departure] {
        &[]
    }
}

/// What a case asks to be staged.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Setting {
    /// What the model answers.
    pub script: Scenario,
    /// Whether there is anyone to answer.
    pub line: Line,
    /// Whether a program that runs the loop reaches the caller's tools. A subject that cannot keep it from them says
    /// so by [`Subject::cannot_stage`].
    pub mcp_server: Line,
    /// The credential to lend, in place of that of [`TOKEN_VARIABLE`], in a case about one that is refused. A subject whose
    /// backend is lent none says so by [`Subject::is_lent_credential`].
    pub renewable: Option<Arc<RenewableToken>>,
    /// What a program that brings tools of its own says of those that its model has. A subject that cannot make it say
    /// something else says so by [`Subject::cannot_stage`].
    pub tool_list: ToolList,
    /// The folder for what Nexus keeps: [`BuildContext::home`](nexus_core::BuildContext::home).
    pub home: PathBuf,
    /// The host's environment: [`BuildContext::environment`](nexus_core::BuildContext::environment). It holds
    /// [`TOKEN_VARIABLE`], [`MARK_VARIABLE`], a private `HOME` and the host's `PATH`.
    pub environment: BTreeMap<String, String>,
}

impl Setting {
    /// A model that plays `script`, and a place of its own.
    pub fn new(script: Scenario, home: PathBuf, environment: BTreeMap<String, String>) -> Self {
        Self {
            script,
            line: Line::Open,
            mcp_server: Line::Open,
            renewable: None,
            tool_list: ToolList::Whole,
            home,
            environment,
        }
    }
}

/// What a program says of the tools that its model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolList {
    /// All of them, and they are those that it may have.
    Whole,
    /// Nothing.
    Missing,
    /// One more than it may have.
    WithAnother,
}

/// A staged backend. Dropping it takes the stage down.
#[non_exhaustive]
pub struct Stage {
    /// The backend.
    pub backend: Arc<dyn ExecutionBackend>,
    /// Says what reached the model.
    pub witness: Arc<dyn Witness>,
    /// Folders of the stage itself, such as the fake CLI's notes: what is in them is not the backend's.
    pub own_folders: Vec<PathBuf>,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl Stage {
    /// A stage for `backend`, on which `witness` saw what reached the model.
    pub fn new(backend: Arc<dyn ExecutionBackend>, witness: Arc<dyn Witness>) -> Self {
        Self { backend, witness, own_folders: Vec::new(), kept: Vec::new() }
    }

    /// Names a folder of the stage itself.
    #[must_use]
    pub fn with_own_folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.own_folders.push(folder.into());
        self
    }

    /// Keeps `thing` alive as long as the stage, such as a server or a folder.
    #[must_use]
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self.kept.push(Box::new(thing));
        self
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("backend", &self.backend).finish_non_exhaustive()
    }
}

/// Why a backend could not be staged.
#[derive(Debug)]
pub struct StageError(String);

impl StageError {
    /// A reason.
    pub fn new(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StageError {}

impl From<std::io::Error> for StageError {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}

/// How long things take with one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Long enough for a turn to start and for a model that answers to be heard; short enough to wait for.
    /// Cases that prove a time limit set it to this.
    pub short: Duration,
    /// No healthy turn of the suite takes longer, and no failure takes longer to be told.
    pub bound: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { short: Duration::from_secs(4), bound: Duration::from_secs(60) }
    }
}

/// Where a backend rightly ends a case with another kind of error than most.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The case.
    pub case: &'static str,
    /// The kinds that are right here.
    pub kinds: Vec<ErrorKind>,
    /// Why.
    pub because: &'static str,
}
