//! `grok-cli`: xAI's Grok Build CLI, one process per turn.
//!
//! The backend reads the output as a stream (`--output-format streaming-json`: deltas, tool calls with their output,
//! one line per model response). The folder that the CLI stores of the session decides the outcome. The other streaming
//! format hides a running tool's output and the reasoning tokens. It also joins an interrupted answer with the next
//! attempt, and has no text at all when a turn fails.
//!
//! The CLI denies its tools that read, search or write files the folder with Nexus's own logins (`$NEXUS_HOME/auth`),
//! at every level, and denies shell commands that name the folder. A file `.ignore` in the folder excludes it from
//! searches that begin above it. At `WorkspaceWrite` the folder is empty inside the sandbox, for every program.
//! `Unrestricted` has no sandbox, so a command that finds the folder under another name can read logins in files. A
//! keyring keeps them out of that folder.
//!
//! With `enforce: sandbox`, the sandbox of Nexus encloses the CLI at each level below `Unrestricted`, in place of the sandbox at
//! `WorkspaceWrite`. The CLI's own sandbox would fail inside, and is off (`--sandbox off`).
//!
//! **The caller's tools** are the CLI's only server. At `ScopedOnly` its model gets two functions, and reaches nothing
//! else:
//!
//! - `search_tool` finds the caller's tools in scope, by words. It reads nothing else, and changes nothing.
//! - `use_tool` calls one. It also takes arguments from a JSON file. At `ScopedOnly` a rule denies it every path, at
//!   the other levels the folders that are denied to all tools that read.
//!
//! The CLI itself rejects a call of any other tool, with an answer to its model: "Tool not found: NAME"; for a file
//! "MCP source Read denied: Denied by permission policy". Such calls never reach the caller.
//!
//! A tool's images reach the model as base64 text, which becomes a warning. A request is rejected if the CLI would
//! silently leave out one of its tools. It leaves out a tool whose name is too long, contains `__`, begins with `_`, or
//! has characters other than ASCII letters, digits, `_` and `-`.
//!
//! The program does not read `TRACEPARENT`, so its own traces are separate from the turn's. If the program retries a
//! model call without reporting it, the trace shows one span for the call.
//!
//! Source: observed with grok 1.0.41.

mod args;
mod capabilities;
mod conversation;
pub(super) mod failure;
pub(super) mod home;
mod mcp_config;
mod outcome;
mod prepare;
mod sandbox;
mod session_log;
#[cfg(test)]
mod tests;
mod tool_result;
mod tools;
mod translate;
mod version;
mod wire;

use std::{ffi::OsStr, path::Path, sync::atomic::AtomicU64};

use async_trait::async_trait;
use nexus_core::{Availability, BuildContext, Capabilities, ResumeHandle, SettingsError, harness::Failure};

use self::translate::GrokTranslator;
pub(super) use self::version::VERSIONS;
use crate::cli::CliBackend;
use crate::cli::provider::CredentialProvider;
use crate::cli::settings::{Billing, LevelEnforcer, Settings};
use crate::cli::versions::AdmittedVersion;
use crate::cli::{Attempt, Cli, KeptConversation, Prepared, TurnPlan};
use crate::grok::login::LOGIN;
use crate::vendor::backend_kind;
use nexus_core::settings_schema;
use nexus_process::environment::{Environment, EnvironmentBuilder};
use nexus_process::executable::{Executable, ExecutableError};

/// Name of the program.
pub(super) const PROGRAM: &str = "grok";
/// Advice for a missing program.
const INSTALL: &str = "install it with `npm install -g @xai-official/grok`, or name it as `executable`";

backend_kind! {
    /// The backend kind `grok-cli`: Grok Build, with its own loop and tools.
    ///
    /// Settings: `executable`, `credential` (default: the login of `nexus login grok`), `billing` (`plan`, the default:
    /// an access token of a subscription; `metered`: an API key), `base_url`, `record`, `max_line_bytes`, `network`, `enforce`,
    /// `hosts`, `program_folders`.
    GrokCli = "grok-cli" of "xai",
    settings settings_schema::of::<Settings>(),
    built by |id, settings, context| CliBackend::build(id, settings, context, Grok::new)
}

/// Folder with the rules of the machine's administrator. Source: the paths in grok 1.0.41.
const MANAGED: &str = "/etc/grok";

/// Grok on this machine, with these settings.
#[derive(Debug)]
pub(crate) struct Grok {
    settings: Settings,
    context: BuildContext,
    credentials: CredentialProvider,
    billing: Billing,
    bubblewrap: Option<Executable>,
    /// Number of processes so far, which makes message ids unique.
    processes: AtomicU64,
}

impl Grok {
    fn new(settings: &Settings, context: &BuildContext) -> Result<Self, SettingsError> {
        settings.check_enforcement()?;
        Ok(Self {
            credentials: CredentialProvider::of(settings, LOGIN, context)?,
            billing: settings.billing.unwrap_or(Billing::Plan),
            bubblewrap: sandbox::find(search_path(context)),
            processes: AtomicU64::new(0),
            settings: settings.clone(),
            context: context.clone(),
        })
    }

    fn executable(&self) -> Result<Executable, ExecutableError> {
        let name = self.settings.executable.as_deref().map_or(OsStr::new(PROGRAM), |path| path.as_os_str());
        Executable::find(name, search_path(&self.context))
    }

    /// Returns an environment with the host's variables that every child may see.
    fn environment(&self) -> EnvironmentBuilder {
        let host = self.context.environment.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::from_host(host)
    }
}

fn search_path(context: &BuildContext) -> Option<&OsStr> {
    context.environment.get("PATH").map(OsStr::new)
}

#[async_trait]
impl Cli for Grok {
    type Translator = GrokTranslator;

    fn capabilities(&self) -> Capabilities {
        let has_sandbox = self.settings.enforce == Some(LevelEnforcer::Sandbox);
        let mut capabilities = capabilities::capabilities(has_sandbox || self.bubblewrap.is_some());
        capabilities.access = self.settings.access_table(&capabilities.access);
        capabilities
    }

    async fn probe(&self) -> Availability {
        let executable = match self.executable() {
            Ok(executable) => executable,
            Err(ExecutableError::Missing { looked_in, .. }) => {
                return Availability::NotInstalled { looked_in, remedy: INSTALL.into() };
            }
            Err(error) => return Availability::Unusable { reason: format!("{error}: {INSTALL}") },
        };
        let AdmittedVersion { version, note } = match self.version_in_passing(&executable).await {
            Ok(admitted) => admitted,
            Err(failure) => return Availability::Unusable { reason: failure.message.unwrap_or_default() },
        };
        if let Some(refusal) = self.credentials.refusal().await {
            return refusal;
        }
        Availability::Ready {
            version: Some(version.to_string()),
            notes: note.into_iter().chain(version::launcher_warning(&executable)).collect(),
        }
    }

    async fn prepare(
        &self,
        plan: &TurnPlan,
        attempt: Attempt,
    ) -> Result<Prepared<Self::Translator>, Failure> {
        self.prepare_process(plan, attempt).await
    }

    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        Some(conversation::kept(nexus_home, &conversation::id_in(handle.state())?))
    }
}
