//! A backend of a [`BackendKind`] under test, built from settings as in a configuration.
//!
//! Its other end is a [`Counterpart`]. The rest is the same for a vendor's CLI and for a model's API.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use nexus_core::{BackendId, BackendKind, BuildContext, ExecutionBackend, ModelId};
use serde_json::{Map, Value, json};

use super::subject::{Departure, Setting, Stage, StageError, Subject, TOKEN_VARIABLE, Timing, ToolList};
use crate::model_call::Line;
use crate::sim::{Dialect, RefusedPort, Scenario, Sim, ToolCall};

/// Builds the scripted model's call of one of the caller's tools.
pub(super) type NameTool = fn(&str, Value) -> ToolCall;

/// A backend of any kind under test. Its settings must include `base_url` and `credential`.
/// [`DelegatedSubject`](super::DelegatedSubject) and [`NativeSubject`](super::NativeSubject) are its two forms.
pub struct KindSubject<C> {
    name: String,
    kind: Arc<dyn BackendKind>,
    pub(super) counterpart: C,
    settings: Map<String, Value>,
    variables: Vec<(String, String)>,
    model: Option<ModelId>,
    timing: Timing,
    not_staged: Vec<(&'static str, String)>,
    departures: Vec<Departure>,
    idle_tools: Vec<&'static str>,
    name_tool: NameTool,
}

/// The other end of a backend: a program or a service, and the settings that lead to it.
pub trait Counterpart: fmt::Debug + Send + Sync {
    /// Sets the counterpart up and builds the backend against it.
    ///
    /// # Errors
    ///
    /// The reason why it could not be set up.
    fn stage(&self, weather: Weather, builder: Builder<'_>) -> Result<Stage, StageError>;

    /// Returns the reason why `case` cannot be staged. `None` if it can.
    fn cannot_stage(&self, case: &str) -> Option<String> {
        let _ = case;
        None
    }
}

/// Conditions of a turn: the behaviour of the model, the network and the program.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Replies of the model.
    pub(super) script: Scenario,
    /// Connection to the model: open or refused.
    pub(super) line: Line,
    /// Connection to the caller's tools: open or refused.
    pub(super) mcp_server: Line,
    /// Tool list that a program reports.
    pub(super) tool_list: ToolList,
}

/// Builds a backend from settings that can still be added to.
#[derive(Debug)]
pub struct Builder<'a> {
    kind: &'a dyn BackendKind,
    settings: Map<String, Value>,
    context: BuildContext,
}

impl Builder<'_> {
    /// Sets a setting.
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) {
        self.settings.insert(key.to_owned(), Value::String(value.into()));
    }

    /// Builds the backend.
    pub(super) fn build(self) -> Result<Arc<dyn ExecutionBackend>, StageError> {
        let id = BackendId::from(self.kind.name());
        self.kind.build(id, &self.settings, &self.context).map_err(StageError::new)
    }

    /// Builds the backend against a simulator that speaks `dialect`, or against a port that refuses.
    pub(super) fn before_sim(mut self, dialect: Dialect, weather: Weather) -> Result<Stage, StageError> {
        // Runs behind a refused port too, as the witness of calls that must not arrive.
        let sim = Arc::new(Sim::start(dialect, weather.script)?);
        if weather.line == Line::Refused {
            let port = RefusedPort::bind()?;
            // Only the root changes, because the path depends on the dialect.
            self.set("base_url", sim.base_url().replacen(&sim.root_url(), &port.root_url(), 1));
            return Ok(Stage::new(self.build()?, sim).keeping(port));
        }
        self.set("base_url", sim.base_url());
        Ok(Stage::new(self.build()?, sim))
    }
}

impl<C> KindSubject<C> {
    pub(super) fn before(
        name: String,
        kind: Arc<dyn BackendKind>,
        counterpart: C,
        name_tool: NameTool,
    ) -> Self {
        Self {
            name,
            kind,
            counterpart,
            settings: Map::from_iter([("credential".to_owned(), json!({ "env": TOKEN_VARIABLE }))]),
            variables: Vec::new(),
            model: None,
            timing: Timing::default(),
            not_staged: Vec::new(),
            departures: Vec::new(),
            idle_tools: Vec::new(),
            name_tool,
        }
    }

    /// Sets a setting of the backend. `null` removes one, such as `credential`.
    #[must_use]
    pub fn with_setting(mut self, key: &str, value: Value) -> Self {
        match value {
            Value::Null => drop(self.settings.remove(key)),
            value => drop(self.settings.insert(key.to_owned(), value)),
        }
        self
    }

    /// Adds a variable to the host's environment as the backend is shown it.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Names the model of requests.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<ModelId>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Says how long things take.
    #[must_use]
    pub fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Declares that `case` cannot be staged, with the reason.
    #[must_use]
    pub fn not_staging(mut self, case: &'static str, because: impl Into<String>) -> Self {
        self.not_staged.push((case, because.into()));
        self
    }

    /// Declares a case that this backend ends with its own error kind, for a good reason.
    #[must_use]
    pub fn departing(mut self, departure: Departure) -> Self {
        self.departures.push(departure);
        self
    }

    /// Names a tool that cannot be taken away and that does nothing: see [`Subject::idle_tools`].
    #[must_use]
    pub fn with_idle_tool(mut self, name: &'static str) -> Self {
        self.idle_tools.push(name);
        self
    }

    /// Sets the function that converts the name of a caller's tool to the call of the scripted model.
    #[must_use]
    pub fn naming_tools(mut self, name_tool: NameTool) -> Self {
        self.name_tool = name_tool;
        self
    }
}

impl<C: fmt::Debug> fmt::Debug for KindSubject<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KindSubject")
            .field("name", &self.name)
            .field("counterpart", &self.counterpart)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl<C: Counterpart> Subject for KindSubject<C> {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let mut environment = setting.environment;
        environment.extend(self.variables.iter().cloned());
        let context = BuildContext::in_home(&setting.home)
            .with_base_directory(&setting.home)
            .with_environment(environment);
        let mut builder = Builder { kind: &*self.kind, settings: self.settings.clone(), context };
        if let Some(renewable) = setting.renewable {
            builder.context = builder.context.with_credential_source("suite", renewable);
            builder.settings.insert("credential".to_owned(), json!({ "source": "suite" }));
        }
        let Setting { script, line, mcp_server, tool_list, .. } = setting;
        let weather = Weather { script, line, mcp_server, tool_list };
        self.counterpart.stage(weather, builder)
    }

    fn model(&self) -> Option<ModelId> {
        self.model.clone()
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn caller_tool(&self, name: &str, arguments: Value) -> ToolCall {
        (self.name_tool)(name, arguments)
    }

    fn idle_tools(&self) -> &[&str] {
        &self.idle_tools
    }

    fn cannot_stage(&self, case: &str) -> Option<String> {
        let reason = self.not_staged.iter().find(|(name, _)| *name == case);
        reason.map(|(_, reason)| reason.clone()).or_else(|| self.counterpart.cannot_stage(case))
    }

    fn departures(&self) -> &[Departure] {
        &self.departures
    }
}
