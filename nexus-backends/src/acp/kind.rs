//! The backend kind `acp`, from its settings in `nexus.yaml`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_core::{
    BackendId, BackendKind, BuildContext, ExecutionBackend, SettingsError, VendorId, settings_schema,
};
use serde_json::{Map, Value};

use super::agent::KnownAgent;
use super::listed;
use super::local_agent::LocalAgent;
use super::own_settings::{CheckedAgentSettings, OwnSettings};
use super::program::AgentProgram;
use super::user_agents::AgentFiles;
use crate::cli::CliBackend;
use crate::cli::settings::Settings;
use crate::settings::part;

/// The backend kind `acp`: an agent that speaks the Agent Client Protocol.
///
/// Settings: `agent`, or `command`; `vendor`, `enforce`, `hosts`, `environment`, `home`, `login_folders` and `program_folders`; and `executable`, `credential`, `billing`, `base_url`, `record`,
/// `max_line_bytes`, `containment`, `network`, `prices` as for every delegated backend.
#[derive(Clone, Debug)]
pub struct Acp {
    known: Arc<[&'static KnownAgent]>,
    /// Home with the user's agents, in place of the context's.
    home: Option<PathBuf>,
}

impl Acp {
    /// Creates the kind with these known agents.
    pub(crate) fn of(known: impl IntoIterator<Item = &'static KnownAgent>) -> Self {
        Self { known: known.into_iter().collect(), home: None }
    }

    /// Takes the user's agents from this home, in place of the home of the context in which a backend is built.
    #[must_use]
    pub fn with_agents_of(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    fn find(&self, name: &str, context: &BuildContext) -> Result<AgentProgram, SettingsError> {
        let files = AgentFiles::in_home(self.home.as_ref().unwrap_or(&context.home));
        let own = files.read_row(name).map_err(|error| SettingsError::new("agent", error.to_string()))?;
        if let Some(row) = own {
            return Ok(AgentProgram::Listed(row));
        }
        if let Some(agent) = self.known.iter().find(|agent| agent.name == name) {
            return Ok(AgentProgram::Known(agent));
        }
        if let Some(agent) = listed::agent(name) {
            return Ok(AgentProgram::Listed(agent));
        }
        let known = self.known.iter().map(|agent| agent.name);
        let mut names: Vec<String> = known.chain(listed::names()).map(str::to_owned).collect();
        names.extend(files.names());
        names.sort();
        names.dedup();
        let reason = format!(
            "is not a known agent; write {}, add a file for it with `nexus agent add`, or name another program with `command`",
            names.join(", ")
        );
        Err(SettingsError::new("agent", reason))
    }
}

impl BackendKind for Acp {
    fn name(&self) -> &str {
        "acp"
    }

    fn vendor(&self, settings: &Map<String, Value>, context: &BuildContext) -> VendorId {
        let text = |key: &str| settings.get(key).and_then(Value::as_str);
        let known = || self.find(text("agent")?, context).ok()?.vendor().map(str::to_owned);
        let program = || {
            let program = Path::new(settings.get("command")?.get(0)?.as_str()?);
            Some(program.file_stem()?.to_string_lossy().into_owned())
        };
        let vendor = text("vendor").map(str::to_owned).or_else(known).or_else(program);
        vendor.unwrap_or_else(|| "unknown".to_owned()).into()
    }

    fn settings_schema(&self) -> Value {
        settings_schema::with_own::<Settings, OwnSettings>()
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let (own, shared) = part::<OwnSettings>(settings)?;
        let program = match (&own.agent, &own.command) {
            (Some(name), None) => self.find(name, context)?,
            (None, Some(command)) => match command.split_first() {
                Some((program, arguments)) if !program.is_empty() => {
                    AgentProgram::Any { program: program.into(), arguments: arguments.to_vec() }
                }
                _ => return Err(SettingsError::new("command", "names no program")),
            },
            (Some(_), Some(_)) => {
                let reason = "applies only to a program that is not a known `agent`";
                return Err(SettingsError::new("command", reason));
            }
            (None, None) => {
                let reason = "name a known agent here, or another program with `command`";
                return Err(SettingsError::new("agent", reason));
            }
        };
        let own = CheckedAgentSettings::read(own, context)?;
        CliBackend::build(id, &shared, context, |settings, context| {
            LocalAgent::new(program, own, settings, context)
        })
    }
}
