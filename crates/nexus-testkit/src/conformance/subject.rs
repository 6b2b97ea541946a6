//! Interface for the author of a backend: how to run the backend against a scripted model.

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

/// A backend under test: it is staged against a scripted model, and has known properties.
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

    /// Builds a fresh backend against a model that plays `setting.script`.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be staged. The case fails with it.
    async fn stage(&self, setting: Setting) -> Result<Stage, StageError>;

    /// The model that requests name; `None` leaves it to the backend.
    fn model(&self) -> Option<ModelId> {
        None
    }

    /// Time limits for this subject.
    fn timing(&self) -> Timing {
        Timing::default()
    }

    /// Builds the scripted model's call of the caller's tool `name`, by the name that this backend gives it.
    fn caller_tool(&self, name: &str, arguments: Value) -> ToolCall {
        ToolCall::function(name, arguments)
    }

    /// Names of tools that this backend offers even at [`ToolAccess::ScopedOnly`](nexus_core::ToolAccess) because
    /// they cannot be removed: tools that read, write and run nothing, such as a tool for notes.
    fn idle_tools(&self) -> &[&str] {
        &[]
    }

    /// Returns true if the backend borrows the credential of the setting, so that it could leak or be renewed. If it does not, the
    /// cases on a lent credential do not apply, and every case fails in which the witness sees a credential.
    fn is_lent_credential(&self) -> bool {
        true
    }

    /// Reason why the case `case` cannot be staged, if it cannot: a condition that the counterpart cannot create,
    /// never a promise that the backend breaks. The report lists each reason. The suite fails if no case is left to
    /// prove a declared capability.
    fn cannot_stage(&self, case: &str) -> Option<String> {
        let _ = case;
        None
    }

    /// Cases that this backend rightly ends with another kind of error than most, with the reasons.
    fn departures(&self) -> &[Departure] {
        &[]
    }
}

/// Setting that a case requests.
#[non_exhaustive]
#[derive(Clone, Debug)]
pub struct Setting {
    /// Replies of the model.
    pub script: Scenario,
    /// Connection to the model: open or refused.
    pub line: Line,
    /// Connection of a program that runs the loop to the caller's tools. A subject that cannot close it reports that by
    /// [`Subject::cannot_stage`].
    pub mcp_server: Line,
    /// Credential to lend in place of that of [`TOKEN_VARIABLE`], in a case about a rejected credential. A subject whose backend
    /// borrows none reports that by [`Subject::is_lent_credential`].
    pub renewable: Option<Arc<RenewableToken>>,
    /// Tool list that a program with its own tools reports. A subject that cannot change the list reports that by
    /// [`Subject::cannot_stage`].
    pub tool_list: ToolList,
    /// Folder for the data of Nexus: [`BuildContext::home`](nexus_core::BuildContext::home).
    pub home: PathBuf,
    /// The host's environment: [`BuildContext::environment`](nexus_core::BuildContext::environment). It holds
    /// [`TOKEN_VARIABLE`], [`MARK_VARIABLE`], a private `HOME` and the host's `PATH`.
    pub environment: BTreeMap<String, String>,
}

impl Setting {
    /// Creates a setting with a model that plays `script`, and its own home.
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

/// Tool list of its model that a program reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolList {
    /// Complete, with permitted tools only.
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
    /// Folders of the stage itself, such as the fake CLI's notes. Their files do not belong to the backend.
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

    /// Keeps `thing`, such as a server or a folder, alive as long as the stage.
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

/// Time limits for one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Long enough for a turn to start and for the model's answer to arrive; short enough to wait for.
    /// Cases on a time limit set the limit to this.
    pub short: Duration,
    /// Upper bound for every healthy turn of the suite, and for the report of every failure.
    pub bound: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self { short: Duration::from_secs(4), bound: Duration::from_secs(60) }
    }
}

/// A case that a backend rightly ends with another kind of error than most.
#[derive(Clone, Debug)]
pub struct Departure {
    /// The case.
    pub case: &'static str,
    /// The kinds that are right here.
    pub kinds: Vec<ErrorKind>,
    /// Why.
    pub because: &'static str,
}
