//! A vendor's CLI before the suite: the real program with a simulated model, or a fake one.

use std::{fmt, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use nexus_core::{BackendId, BackendKind, BuildContext, ModelId};
use serde_json::{Map, Value, json};

use super::subject::{Departure, Line, Setting, Stage, StageError, Subject, TOKEN_VARIABLE, Timing};
use crate::{
    fake_cli::{Act, FakeCli, FakeScript, Vendor},
    sim::{Dialect, RefusedPort, Sim, ToolCall},
};

/// How the scripted model calls a tool of the caller's.
type NameTool = fn(&str, Value) -> ToolCall;

/// A delegated backend before the suite: one that takes `executable`, `base_url` and `credential` among its
/// settings.
///
/// ```
/// # use std::sync::Arc;
/// # use nexus_core::BackendKind;
/// # use nexus_testkit::conformance::DelegatedSubject;
/// # use nexus_testkit::fake_cli::Vendor;
/// # fn subject(kind: Arc<dyn BackendKind>) -> DelegatedSubject {
/// DelegatedSubject::fake("codex-cli with a fake program", kind, Vendor::Codex).with_model("gpt-5.5")
/// # }
/// ```
pub struct DelegatedSubject {
    name: String,
    kind: Arc<dyn BackendKind>,
    program: Program,
    settings: Map<String, Value>,
    variables: Vec<(String, String)>,
    model: Option<ModelId>,
    timing: Timing,
    not_staged: Vec<(&'static str, String)>,
    departures: Vec<Departure>,
    idle_tools: Vec<&'static str>,
    name_tool: NameTool,
}

/// What is run, and what it talks to.
#[derive(Clone, Debug)]
enum Program {
    Real { executable: PathBuf, dialect: Dialect },
    Fake { vendor: Vendor, program: Option<PathBuf> },
}

impl DelegatedSubject {
    /// The real program `executable`, before a simulator that speaks `dialect`.
    pub fn real(
        name: impl Into<String>,
        kind: Arc<dyn BackendKind>,
        executable: impl Into<PathBuf>,
        dialect: Dialect,
    ) -> Self {
        Self::new(name.into(), kind, Program::Real { executable: executable.into(), dialect })
    }

    /// A fake of `vendor`'s program, which is this very program: its `main` begins with
    /// [`fake_cli::run_if_invoked`](crate::fake_cli::run_if_invoked).
    pub fn fake(name: impl Into<String>, kind: Arc<dyn BackendKind>, vendor: Vendor) -> Self {
        Self::new(name.into(), kind, Program::Fake { vendor, program: None })
    }

    fn new(name: String, kind: Arc<dyn BackendKind>, program: Program) -> Self {
        Self {
            name,
            kind,
            program,
            settings: Map::from_iter([("credential".to_owned(), json!({ "env": TOKEN_VARIABLE }))]),
            variables: Vec::new(),
            model: None,
            timing: Timing::default(),
            not_staged: Vec::new(),
            departures: Vec::new(),
            idle_tools: Vec::new(),
            name_tool: |name, arguments| ToolCall::mcp("nexus", name, arguments),
        }
    }

    /// Poses as the vendor with `program` instead of this one, such as `nexus-fake-cli`.
    #[must_use]
    pub fn with_fake_program(mut self, path: impl Into<PathBuf>) -> Self {
        if let Program::Fake { program, .. } = &mut self.program {
            *program = Some(path.into());
        }
        self
    }

    /// Sets a setting of the backend. `null` takes one away, such as `credential`.
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

    /// Says that `case` cannot be staged, and why.
    #[must_use]
    pub fn not_staging(mut self, case: &'static str, because: impl Into<String>) -> Self {
        self.not_staged.push((case, because.into()));
        self
    }

    /// States where the backend rightly ends a case with another kind of error than most.
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

    /// Says how the scripted model calls a tool of the caller's; by default, that of the MCP server `nexus`.
    #[must_use]
    pub fn naming_tools(mut self, name_tool: NameTool) -> Self {
        self.name_tool = name_tool;
        self
    }
}

impl fmt::Debug for DelegatedSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelegatedSubject").field("name", &self.name).field("program", &self.program).finish()
    }
}

#[async_trait]
impl Subject for DelegatedSubject {
    fn name(&self) -> &str {
        &self.name
    }

    async fn stage(&self, setting: Setting) -> Result<Stage, StageError> {
        let mut settings = self.settings.clone();
        let mut set = |key: &str, value: String| drop(settings.insert(key.to_owned(), Value::String(value)));
        let path_text = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let base_directory = setting.home.clone();
        let mut environment = setting.environment;
        environment.extend(self.variables.iter().cloned());
        let build = |settings: &Map<String, Value>| {
            let context =
                BuildContext::new(&setting.home, &base_directory).with_environment(environment.clone());
            let id = BackendId::from(self.kind.name());
            self.kind.build(id, settings, &context).map_err(StageError::new)
        };
        match &self.program {
            Program::Fake { vendor, program } => {
                let script =
                    FakeScript::new(Act::Imitate { scenario: Box::new(setting.script), line: setting.line });
                let fake = Arc::new(match program {
                    Some(program) => FakeCli::install_program(program, *vendor, &script)?,
                    None => FakeCli::install(*vendor, &script)?,
                });
                set("executable", path_text(fake.executable()));
                let folder = fake.folder().to_owned();
                Ok(Stage::new(build(&settings)?, fake).with_own_folder(folder))
            }
            Program::Real { executable, dialect } => {
                set("executable", path_text(executable));
                let sim = Arc::new(Sim::start(*dialect, setting.script)?);
                if setting.line == Line::Refused {
                    let port = RefusedPort::bind()?;
                    let url = sim.base_url().replacen(&sim.root_url(), &port.root_url(), 1);
                    set("base_url", url);
                    return Ok(Stage::new(build(&settings)?, sim).keeping(port));
                }
                set("base_url", sim.base_url());
                Ok(Stage::new(build(&settings)?, sim))
            }
        }
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
        reason.map(|(_, reason)| reason.clone())
    }

    fn departures(&self) -> &[Departure] {
        &self.departures
    }
}
