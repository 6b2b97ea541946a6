//! `codex-cli`: OpenAI's Codex CLI, driven through `codex app-server`.
//!
//! | module | contents |
//! | --- | --- |
//! | `args` | the arguments, and the requests on standard input |
//! | `home` | the private home of a run: configuration and environment |
//! | `capabilities` | the program's capabilities, and the part that enforces each level |
//! | `sandbox`, `switches` | the program's sandbox at each access level, and the check that its own tools are disabled |
//! | `version`, `models` | path, version and models of the program |
//! | `wire` | the program's messages, with the vendor's names |
//! | `mcp_config` | the caller's tools in the configuration, and their names in the program |
//! | `translate`, `setting` | the exchange, line by line; `messages`, `tool_calls`, `usage`, `rate_limits` and `failure` each read a part |
//! | `session_log`, `conversation` | the program's own record of a conversation: read at the end, stored for later turns |
//!
//! The token reaches the program only in its environment, through a provider entry of Nexus. The home has no
//! `auth.json`, and nothing that could refresh a token, so a run can neither use up nor lose the login. With `login:
//! chatgpt` the entry leads to the public API, as OpenAI documents it for `codex app-server` (developers.openai.com,
//! "Sign in with ChatGPT", the page on Codex app-server). The pages warn that a request with the tool `tool_search`
//! fails there.
//!
//! The caller's tools are a server in the program's configuration, on loopback. A conversation does not open without
//! it, and the prompt is sent only after the program has listed every tool of the scope. The server's token is also
//! only in the environment, and no command inherits it. In `Unrestricted` a command may read the environment of the
//! program, and so find the token and reach the same session.
//!
//! Every model has the tools in its list, under their names in the namespace `mcp__nexus`. Each letter other than an
//! ASCII letter, digit or `_` becomes `_`, and two names that become equal each get a hash. A warning lists the renamed
//! tools. A result begins with the duration of the call, in the program's words. A result of up to 1 MiB is not cut,
//! but the program first summarises one that exceeds the model's window, with a warning. A call may take as long as the
//! turn. A sub-agent of the program has the same tools.
//!
//! In `ScopedOnly` the model has no other tools, except three helpers that the program adds to any server:
//! `list_mcp_resources`, `list_mcp_resource_templates` and `read_mcp_resource`. They reach only that server, which has
//! no resources. A tool of the caller must not have one of these names, because its calls could not be distinguished
//! from the helpers'. The program itself rejects calls of other tools, so they reach no server. It answers `unsupported
//! call: exec_command`, `unsupported custom tool call: apply_patch`, and for a tool of the caller out of scope
//! `unsupported call: mcp__nexusNAME`.
//!
//! With any content of the home, the program also reads the configuration of the machine's administrator
//! (`/etc/codex`), and `.codex/config.toml` of a trusted working directory. Tool servers that these name are disabled
//! when the conversation opens, at every level. A server that is connected nevertheless ends the turn before the prompt
//! is sent, and the error names it. Other settings of such a configuration stay in force. An administrator may, for
//! example, redirect the program's requests to another provider under the name of ours, run a notification at the
//! turn's end, or require a narrower sandbox, which ends the turn.
//!
//! The program's own sandbox limits writing and the network, not reading. In `ReadOnly` and `WorkspaceWrite` commands,
//! patches and images cannot read logins of Nexus that are in files (`$NEXUS_HOME/auth`) when the turn begins: a
//! permission profile denies that folder, and otherwise equals the sandbox. `Unrestricted` has no such sandbox. A
//! command that may write to a parent of that folder can move the parent, and a later command can then read the folder.
//! A keyring keeps logins out of that folder.
//!
//! With `enforce: sandbox`, the sandbox of Nexus encloses the program at each level below `Unrestricted`, and the program's own one is
//! off where commands run. A command can then read the environment of the program, as in `Unrestricted`, but reaches only the
//! listed hosts. An owner-only file contains the variables, with the token, until the process has started.

mod args;
mod capabilities;
mod conversation;
mod failure;
mod home;
pub(super) mod mcp_config;
mod messages;
mod models;
mod rate_limits;
mod sandbox;
mod session_log;
mod setting;
mod switches;
#[cfg(test)]
mod tests;
mod tool_calls;
mod translate;
mod usage;
mod version;
mod wire;

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use async_trait::async_trait;
use nexus_core::{
    AppliedEffort, Availability, BuildContext, Capabilities, ConversationMode, ErrorKind, ResumeHandle,
    Secret, SettingsError, ToolAccess, harness::Failure,
};

use schemars::JsonSchema;
use serde::Deserialize;

use self::conversation::{ConversationStore, KeptSession};
use self::home::{Folders, Provider, TOKEN_VARIABLE};
use self::models::{ModelList, UnlistedModels};
use self::sandbox::SandboxPolicy;
use self::setting::{EffortChoice, Setting};
use self::translate::AppServer;
pub(super) use self::version::VERSIONS;
use crate::auth::Lease;
use crate::cli::CliBackend;
use crate::cli::StartupWait;
use crate::cli::caller_tools;
use crate::cli::program_start::{ProgramStart, ReadyProcess, SandboxNeeds};
use crate::cli::provider::CredentialProvider;
use crate::cli::refusal;
use crate::cli::sandboxed_program::{SandboxFiles, SandboxHome};
use crate::cli::settings::{Billing, Settings};
use crate::cli::versions::AdmittedVersion;
use crate::cli::{Attempt, Cli, KeptConversation, Prepared, TurnPlan};
use crate::codex::{chatgpt, login};
use crate::own_login::OwnLogin;
use crate::settings::part;
use crate::vendor::backend_kind;
use nexus_core::settings_schema;
use nexus_process::environment::Environment;
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::private_home::PrivateHome;
use nexus_process::spawn::StdinMode;

backend_kind! {
    /// The backend kind `codex-cli`.
    CodexCli = "codex-cli" of "openai",
    settings settings_schema::with_own::<Settings, OwnSettings>(),
    built by |id, settings, context| {
        let (own, settings) = part::<OwnSettings>(settings)?;
        CliBackend::build(id, &settings, context, |settings, context| Codex::new(settings, own.login, context))
    }
}

/// Settings of this program in addition to those of every CLI.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct OwnSettings {
    /// The login to use if no credential is named. codex: the Codex program's own way, at its endpoint. chatgpt: "Sign
    /// in with ChatGPT", at the public API. Default: codex.
    login: PlanLogin,
}

/// Login for a plan. It also decides the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum PlanLogin {
    #[default]
    Codex,
    Chatgpt,
}

impl PlanLogin {
    fn own(self) -> OwnLogin {
        match self {
            Self::Codex => login::LOGIN,
            Self::Chatgpt => chatgpt::login::LOGIN,
        }
    }
}

/// Folder with the rules of the machine's administrator. Source: the paths in codex 0.169.0.
const MANAGED: &str = "/etc/codex";

/// The program as configured.
#[derive(Debug)]
struct Codex {
    settings: Settings,
    login: PlanLogin,
    credentials: CredentialProvider,
    environment: HostEnvironment,
}

/// The host's environment. `Debug` shows only the number of variables.
#[derive(Clone)]
struct HostEnvironment(BTreeMap<String, String>);

impl std::fmt::Debug for HostEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} variables", self.0.len())
    }
}

impl Codex {
    fn new(settings: &Settings, login: PlanLogin, context: &BuildContext) -> Result<Self, SettingsError> {
        settings.check_enforcement()?;
        Ok(Self {
            credentials: CredentialProvider::of(settings, login.own(), context)?,
            login,
            environment: HostEnvironment(context.environment.clone()),
            settings: settings.clone(),
        })
    }

    fn executable(&self) -> Result<Executable, ExecutableError> {
        let search_path = self.environment.0.get("PATH").map(String::as_str);
        version::find(self.settings.executable.as_deref(), search_path)
    }

    /// Returns the environment for a query of the program's version or models.
    fn bare_environment(&self, folders: &Folders) -> Result<Environment, Failure> {
        home::bare_environment(&self.environment.0, &self.settings, folders).map_err(invalid)
    }

    /// Borrows the credential, and compares it with the configured billing.
    async fn borrow(&self, plan: &TurnPlan) -> Result<Lease, Failure> {
        let lease = self.credentials.lend(plan).await?;
        match mismatch(self.settings.billing, &lease.credential().token) {
            Some(reason) => Err(Failure::new(ErrorKind::BillingMismatch, reason)),
            None => Ok(lease),
        }
    }

    /// Returns the effort that the model supports, if the program's list has the model.
    fn effort(plan: &TurnPlan, models: Option<&ModelList>) -> EffortChoice {
        let Some(effort) = plan.effort else { return EffortChoice::default() };
        let entry = models.and_then(|models| match &plan.request.model {
            Some(model) => models.entry(model.as_str()),
            None => models.default_entry(),
        });
        let fitting = entry.and_then(|entry| effort.applied.clamp_to(&entry.efforts()));
        let applied = fitting.map_or(effort.applied, |fitting| fitting.applied);
        let warning = (applied != effort.applied)
            .then(|| format!("the model does not support the effort {}; {applied} is used", effort.applied));
        EffortChoice { effort: Some(AppliedEffort { requested: effort.requested, applied }), warning }
    }

    /// Writes the home of a run.
    fn write_home(
        &self,
        plan: &TurnPlan,
        policy: &SandboxPolicy,
        home: &PrivateHome,
        provider: &Provider<'_>,
        models: Option<&ModelList>,
    ) -> Result<(), Failure> {
        let request = &*plan.request;
        let folders = Folders::below(home.path());
        if request.tool_access == ToolAccess::ScopedOnly {
            let entry = models.and_then(|models| match &request.model {
                Some(model) => models.entry(model.as_str()).or_else(|| models.default_entry()),
                None => models.default_entry(),
            });
            let Some(entry) = entry else {
                return Err(UnlistedModels::NotTold.failure());
            };
            home.write("codex/models.json", entry.list_without_own_tools().to_string())
                .map_err(unwritable)?;
        }
        let host_home = match request.tool_access {
            ToolAccess::ScopedOnly => None,
            // Commands get the home of the sandbox, as the program does.
            access if self.settings.has_sandbox(access) => None,
            _ => self.environment.0.get("HOME").map(String::as_str).filter(|home| !home.is_empty()),
        };
        let configuration =
            home::configuration(request, policy, plan.tools.as_ref(), provider, &folders, host_home)
                .map_err(invalid)?;
        home.write("codex/config.toml", configuration).map_err(unwritable)?;
        Ok(())
    }
}

#[async_trait]
impl Cli for Codex {
    type Translator = AppServer;

    // Source: observed with codex 0.169.0.
    fn models_advice(&self) -> &'static str {
        "run `codex debug models`"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = capabilities::capabilities();
        capabilities.access = self.settings.access_table(&capabilities.access);
        capabilities
    }

    async fn probe(&self) -> Availability {
        let executable = match self.executable() {
            Ok(executable) => executable,
            Err(error) => return version::unavailable(error),
        };
        // The program reads and writes no file to print its version, so the folder need not exist.
        let Ok(environment) = self.bare_environment(&Folders::below(Path::new("/nonexistent"))) else {
            return Availability::Unusable {
                reason: "the host's environment cannot be passed to the process".into(),
            };
        };
        let AdmittedVersion { version, note } =
            match version::version(&executable, &environment, self.settings.versions).await {
                Ok(admitted) => admitted,
                Err(failure) => {
                    return Availability::Unusable { reason: failure.message.unwrap_or_default() };
                }
            };
        if let Some(refusal) = self.credentials.refusal().await {
            return refusal;
        }
        Availability::Ready { version: Some(version.to_string()), notes: Vec::from_iter(note) }
    }

    async fn prepare(&self, plan: &TurnPlan, attempt: Attempt) -> Result<Prepared<AppServer>, Failure> {
        let request = &*plan.request;
        if let Some(failure) = plan.tools.as_ref().and_then(mcp_config::taken_names) {
            return Err(failure);
        }
        let executable = self.executable().map_err(version::not_installed)?;
        let home = plan.home()?;
        let folders = Folders::below(home.path());
        // The program exits at once if its home does not exist.
        for folder in ["codex", "user", "tmp"] {
            home.folder(folder).map_err(unwritable)?;
        }
        let bare = self.bare_environment(&folders)?;
        let AdmittedVersion { version, note } =
            version::version(&executable, &bare, self.settings.versions).await?;
        version::VERSIONS.admit_output(&version, request, self.settings.versions)?;
        let version = version.to_string();
        // The program uses the token from its environment until it ends, and never requests another.
        let lease = self.borrow(plan).await?;
        let renamed = plan.tools.as_ref().and_then(mcp_config::renamed);
        let warnings = note.into_iter().chain(renamed).collect();

        let store = match &request.conversation {
            ConversationMode::Ephemeral => None,
            _ => Some(ConversationStore::new(&plan.nexus_home)),
        };
        let resumed = match (&attempt, &store) {
            (Attempt::First, Some(store)) => restore(request.conversation.handle(), store, home.path())?,
            _ => None,
        };
        // The list costs another process, so request it only if it decides something.
        let needs_models = request.tool_access == ToolAccess::ScopedOnly || plan.effort.is_some();
        let models = match needs_models {
            true => match ModelList::of(&executable, &bare).await {
                Ok(models) => Some(models),
                // Some of the program's own tools can be removed only through an edited model list.
                Err(unlisted) if request.tool_access == ToolAccess::ScopedOnly => {
                    return Err(unlisted.failure());
                }
                // Here the list only limits the effort, so the turn can run without it.
                Err(_) => None,
            },
            false => None,
        };
        let effort = Self::effort(plan, models.as_deref());
        let has_sandbox = self.settings.has_sandbox(request.tool_access);
        let policy = match has_sandbox {
            true => SandboxPolicy::in_sandbox(request),
            false => SandboxPolicy::new(request, plan.login_folders())?,
        };
        let directory = self.settings.working_directory(plan);
        let script = args::script(plan, &directory, &policy, resumed.as_ref(), effort.effort)?;
        let account = lease.credential().account.as_deref();
        let (settings, login) = (&self.settings, self.login);
        let provider = Provider { settings, login, account, version: Some(&version) };
        self.write_home(plan, &policy, &home, &provider, models.as_deref())?;

        let start = ProgramStart {
            plan,
            settings,
            host: &self.environment.0,
            executable,
            arguments: args::ARGUMENTS.map(OsString::from).into(),
            working_directory: plan.working_directory.clone(),
            stdin: StdinMode::Open,
            sandbox: has_sandbox.then(|| SandboxNeeds {
                files: SandboxFiles {
                    home: SandboxHome::Empty,
                    writable: vec![home.path().to_owned()],
                    login_folders: Vec::new(),
                    read_only: Vec::new(),
                    settings: vec![MANAGED.into()],
                },
                hosts: home::hosts(settings, login),
            }),
        };
        let ready = start.prepare(|builder| {
            let builder = home::with_variables(builder, settings, Some(request), &folders)
                .with(TOKEN_VARIABLE, lease.credential().token.expose());
            match &plan.tools {
                Some(tools) => builder.with(caller_tools::TOKEN_VARIABLE, tools.token().expose()),
                None => builder,
            }
        });
        let ReadyProcess { invocation, sandbox, .. } = ready.await?;
        let setting = Setting {
            backend: plan.backend.clone(),
            access: request.tool_access,
            tools: plan.tools.clone(),
            without_tools: (request.tool_access == ToolAccess::ScopedOnly)
                .then(|| home::without_own_tools(&folders)),
            effort,
            store,
        };
        Ok(Prepared {
            invocation,
            translator: AppServer::new(setting, script),
            home: Some(home),
            lease: Some(lease),
            sandbox,
            startup: StartupWait::none(),
            warnings,
            version: Some(version),
        })
    }

    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        Some(KeptSession::from_handle(handle)?.kept(&ConversationStore::new(nexus_home)))
    }
}

/// Copies the conversation of `handle` into the home, if there is a handle.
fn restore(
    handle: Option<&ResumeHandle>,
    store: &ConversationStore,
    home: &Path,
) -> Result<Option<KeptSession>, Failure> {
    let Some(handle) = handle else { return Ok(None) };
    let lost = |reason: &str| Failure::new(ErrorKind::ConversationLost, reason);
    let session = KeptSession::from_handle(handle).ok_or_else(|| lost("the handle names no conversation"))?;
    match session.restore(store, &home::sessions(home)) {
        Ok(()) => Ok(Some(session)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(lost(
            "the file of its record is \
            gone",
        )),
        Err(error) => Err(lost("its record cannot be read").with_source(error)),
    }
}

/// Returns the reason why a token would be billed otherwise than configured; `None` if the form of the token does not
/// show it.
fn mismatch(billing: Option<Billing>, token: &Secret) -> Option<String> {
    let is_key = token.expose().starts_with("sk-");
    // Every JWT begins with these letters: they encode `{"` in Base64.
    let is_access_token = token.expose().starts_with("eyJ");
    let billing = billing.unwrap_or(Billing::Plan);
    let found = match billing {
        Billing::Plan if is_key => "an API key, which is metered",
        Billing::Metered if is_access_token => "a subscription's token",
        _ => return None,
    };
    Some(format!("billing is {:?}, but the credential is {found}", billing.as_str()))
}

fn unwritable(error: std::io::Error) -> Failure {
    refusal::unwritable("the run's home", error)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::of(ErrorKind::InvalidRequest, &error)
}
