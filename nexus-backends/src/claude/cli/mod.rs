//! `claude-cli`: a backend in which Anthropic's Claude Code runs the loop.
//!
//! One process is one turn, driven by JSON lines in both directions. Standard input carries the system text, the
//! schema, the address of the caller's tools and the prompt. Before the prompt is sent, the CLI has reported its
//! billing and connected the tools. `args` builds the command line, `home` the folders and the environment, `service` the
//! variables of a cloud or a gateway, `wire` has
//! the vendor's lines, `translate` converts them into events, and `mcp_config` names the server of the caller's tools.
//!
//! Two behaviours of the CLI remain visible. First, the CLI itself repeats a model call whose stream breaks, 2.1.197
//! without streaming, 2.1.329 mostly with it. The backend retracts the events of the interrupted answer, and the turn
//! continues. Second, a background task of the agent keeps the turn open, because the CLI reports the task's end to the
//! model, which then changes the answer. 2.1.197 ends a shell command five seconds after the answer. 2.1.329 waits for
//! it, so only a deadline limits a task that never ends.
//!
//! The CLI's own rules enforce each access level. `ScopedOnly` and `ReadOnly` are lists of tools, and the backend
//! checks the list that the CLI reports before it accepts the answer. `WorkspaceWrite` lets the shell run commands that
//! the CLI recognises as staying inside. The CLI denies other commands, or asks the host about them if the host
//! approves calls.
//!
//! The caller's tools are available at every level, as those of the MCP server `nexus`. The model sees them as
//! `mcp__nexus__NAME`, so a name has at most 116 characters. In `ScopedOnly` the model has no other tool, except
//! `StructuredOutput` if the answer must have a shape. The CLI receives that answer through this tool, which reaches
//! nothing else. The CLI itself answers a call of any other tool as one that does not exist; such a call never runs and
//! never reaches the session.
//!
//! A call may take as long as the turn. The CLI runs calls of read-only tools concurrently, and all others one after
//! another. Of a result of more than 500,000 characters it shows the model only the beginning, which becomes a warning.
//! A rule of the machine's administrator (`/etc/claude-code/managed-settings.json`) may remove the tools. Such a turn
//! ends before it costs anything, or before its answer is accepted.
//!
//! The credential is in the environment of the process, never on a command line and in no file. The CLI removes a
//! subscription's token from the environment of its shell, but leaves an API key in it. So at the levels with a shell
//! the agent can read a key, and with some effort (`/proc`) also a token. The CLI's own switch against that
//! (`CLAUDE_CODE_SUBPROCESS_ENV_SCRUB`) needs a sandbox that most machines lack, and stops every command there.
//!
//! The CLI denies its tools that read or write files the folder with Nexus's own logins (`$NEXUS_HOME/auth`), at every
//! level. That rule does not bind programs that its shell runs, unless the CLI can see in the command that it reads
//! there. So at the levels with a shell, a command can read logins that are in files. A keyring keeps them out of that
//! folder.
//!
//! With `enforce: sandbox`, the sandbox of Nexus encloses the CLI at each level below `Unrestricted`. With a lent credential, the CLI
//! then allows each of its tools at `WorkspaceWrite`. With the user's own login its rules stay in force, because the folder of the
//! login is writable. The CLI's own sandbox for commands would fail inside, and is off: no settings of a user are read, and those on
//! the command line disable it. Source: the vendor's documentation of sandboxing. An owner-only file contains the variables, with the
//! credential, until the process has started.
//!
//! Nexus never opens the user's own login; the CLI refreshes it itself. Parallel starts must not race for that refresh.
//! So the first process runs alone until the model has answered it or its turn has ended. The others wait for that,
//! each for at most 15 seconds in total. After an answer no process waits for five minutes. A turn that waits reports
//! the wait after half a second, can be cancelled, and keeps its deadline; its limits on silence begin when it may
//! start. With a credential in the configuration no process waits.

mod account;
pub(super) mod args;
mod conversation;
pub(super) mod home;
mod inputs;
mod mcp_config;
mod messages;
mod models;
mod outcome;
mod outgoing;
mod prompt;
mod service;
mod startup_throttle;
#[cfg(test)]
mod tests;
mod tool_calls;
mod tools;
mod translate;
mod version;
mod wire;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, AccessTable, Availability, BuildContext, Capabilities, CostReport,
    Enforcement, ErrorKind, ForgetSupport, LimitSupport, LoopMode, OutputSupport, ResumeHandle,
    SettingsError, Support, TextGranularity, harness::Failure,
};

use self::args::{ArgumentInputs, OwnRules};
use self::conversation::RetainedSession;
use self::service::ServiceSettings;
use self::startup_throttle::FirstTurn;
use self::translate::{ClaudeTranslator, Opening};
pub(super) use self::version::VERSIONS;
use crate::auth::{CredentialSource, Lease};
use crate::cli::CliBackend;
use crate::cli::StartupWait;
use crate::cli::permission::Permissions;
use crate::cli::program_start::{ProgramStart, ReadyProcess, SandboxNeeds};
use crate::cli::refusal;
use crate::cli::sandboxed_program::{SandboxFiles, SandboxHome};
use crate::cli::settings::Settings;
use crate::cli::versions::AdmittedVersion;
use crate::cli::{Attempt, Cli, KeptConversation, Prepared, TurnPlan};
use crate::vendor::backend_kind;
use nexus_core::settings_schema;
use nexus_process::environment::Environment;
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::spawn::StdinMode;
use nexus_process::version::version_line;

/// Default program, unless the settings name another.
pub(super) const PROGRAM: &str = "claude";

/// Folder with the rules of the machine's administrator. Source: the vendor's documentation of settings.
const MANAGED: &str = "/etc/claude-code";

/// Advice for a missing program.
const INSTALL: &str = "install Claude Code, or name the program as `executable`";

backend_kind! {
    /// The backend kind `claude-cli`.
    ClaudeCli = "claude-cli" of "anthropic",
    settings settings_schema::with_own::<Settings, ServiceSettings>(),
    built by |id, settings, context| {
        let (service, shared) = ServiceSettings::part(settings)?;
        CliBackend::build(id, &shared, context, |settings, context| Claude::new(settings, service, context))
    }
}

/// Prepares processes of `claude`.
#[derive(Debug)]
pub(crate) struct Claude {
    settings: Settings,
    service: ServiceSettings,
    credential: Option<Arc<dyn CredentialSource>>,
    context: BuildContext,
}

impl Claude {
    fn new(
        settings: &Settings,
        service: ServiceSettings,
        context: &BuildContext,
    ) -> Result<Self, SettingsError> {
        settings.check_enforcement()?;
        let mut settings = settings.clone();
        let credential = service.credential_source(&mut settings, context)?;
        if credential.is_some() && settings.billing.is_none() {
            let reason =
                "name the type of the credential: `plan` for a subscription token, `metered` for an API key";
            return Err(SettingsError::new("billing", reason));
        }
        if credential.is_none() && settings.base_url.is_some() {
            let reason =
                "needs a `credential` beside it: the CLI's own login works only with its vendor's endpoint";
            return Err(SettingsError::new("base_url", reason));
        }
        Ok(Self { settings, service, credential, context: context.clone() })
    }

    fn executable(&self) -> Result<Executable, ExecutableError> {
        let name = self.settings.executable.as_deref().map_or(OsStr::new(PROGRAM), |path| path.as_os_str());
        Executable::find(name, self.context.environment.get("PATH").map(OsStr::new))
    }

    /// Returns the version of the program if it may run.
    async fn version(&self, executable: &Executable) -> Result<AdmittedVersion, Failure> {
        let host = self.context.environment.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::from_host(host).with("DISABLE_AUTOUPDATER", "1").build();
        let environment = environment.unwrap_or_default();
        let line = version_line(executable, &environment)
            .await
            .map_err(|error| refusal::untold(executable.path(), &error, INSTALL))?;
        VERSIONS.admit(executable.path(), &line, self.settings.versions)
    }

    /// Borrows the credential that the settings name. Without one, the CLI uses the user's own login, which Nexus never
    /// touches.
    async fn borrow(&self, plan: &TurnPlan) -> Result<Option<Lease>, Failure> {
        let Some(source) = &self.credential else { return Ok(None) };
        Ok(Some(plan.borrow(source).await?))
    }

    /// Returns the needs of a process in the sandbox. `config` is the CLI's own folder, unless the process has the user's login.
    fn sandbox_needs(&self, home: &Path, config: Option<PathBuf>) -> SandboxNeeds {
        let has_own_login = config.is_none();
        let users = || self.context.environment.get("CLAUDE_CONFIG_DIR").filter(|folder| !folder.is_empty());
        // The CLI renews the login in this folder, which must stay the only place of the login.
        let login = has_own_login.then(|| users().map_or(PathBuf::from(".claude"), PathBuf::from));
        let config = config.filter(|config| !config.starts_with(home));
        SandboxNeeds {
            files: SandboxFiles {
                home: SandboxHome::Empty,
                writable: config.into_iter().chain([home.to_owned()]).collect(),
                login_folders: Vec::from_iter(login),
                read_only: Vec::new(),
                settings: vec![MANAGED.into()],
            },
            hosts: self.service.hosts(has_own_login),
        }
    }

    /// Returns the facts about the user's login that are visible without opening a file.
    fn login(&self) -> VisibleLogin {
        let variable =
            |name: &str| self.context.environment.get(name).filter(|value| !value.is_empty()).cloned();
        let Some((login, settings)) = login_place(variable) else { return VisibleLogin::Unknown };
        if login.exists() {
            VisibleLogin::Likely
        } else if settings.exists() {
            // The login may be in a keychain, or the CLI may store a key itself.
            VisibleLogin::Unknown
        } else {
            VisibleLogin::None
        }
    }
}

/// Returns the paths of the user's login and of the program's settings. A keychain may have the login in place of the file.
pub(super) fn login_place(variable: impl Fn(&str) -> Option<String>) -> Option<(PathBuf, PathBuf)> {
    let (folder, settings) = match (variable("CLAUDE_CONFIG_DIR"), variable("HOME")) {
        (Some(folder), _) => (PathBuf::from(&folder), PathBuf::from(&folder).join(".claude.json")),
        (None, Some(home)) => {
            (PathBuf::from(&home).join(".claude"), PathBuf::from(&home).join(".claude.json"))
        }
        (None, None) => return None,
    };
    Some((folder.join(".credentials.json"), settings))
}

/// Login of the user, as far as it is visible from outside.
enum VisibleLogin {
    Likely,
    Unknown,
    None,
}

#[async_trait]
impl Cli for Claude {
    type Translator = ClaudeTranslator;

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.provider = Some("anthropic".to_owned());
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.images = Support::Yes;
        capabilities.system = Support::Yes;
        capabilities.output = OutputSupport::Native;
        capabilities.resume = Support::Yes;
        capabilities.forget = ForgetSupport::Deletes;
        capabilities.harness_tools = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.extra_roots = Support::Yes;
        capabilities.approvals = Support::Yes;
        capabilities.steering = Support::Yes;
        capabilities.efforts = args::EFFORTS.to_vec();
        capabilities.access = self.settings.access_table(&AccessTable {
            scoped_only: AccessSupport::Kept(AccessEnforcer::Vendor),
            read_only: AccessSupport::Kept(AccessEnforcer::Vendor),
            workspace_write: AccessSupport::Kept(AccessEnforcer::Vendor),
            unrestricted: AccessSupport::Kept(AccessEnforcer::None),
        });
        capabilities.limits = LimitSupport::new()
            .with_tool_calls(Enforcement::Ours)
            .with_model_calls(Enforcement::Vendor)
            .with_output_tokens(Enforcement::Ours)
            .with_cost(Enforcement::Vendor);
        capabilities.cost = CostReport::Estimated;
        capabilities
    }

    async fn probe(&self) -> Availability {
        let executable = match self.executable() {
            Ok(executable) => executable,
            Err(ExecutableError::Missing { looked_in, .. }) => {
                let remedy = INSTALL.to_owned();
                return Availability::NotInstalled { looked_in, remedy };
            }
            Err(error) => return Availability::Unusable { reason: error.to_string() },
        };
        let AdmittedVersion { version, note } = match self.version(&executable).await {
            Ok(admitted) => admitted,
            Err(failure) => return Availability::Unusable { reason: failure.message.unwrap_or_default() },
        };
        let mut notes = Vec::from_iter(note);
        if let Some(source) = &self.credential {
            if let Err(error) = source.standing().await {
                return Availability::Unauthenticated { remedy: error.to_string() };
            }
        } else {
            match self.login() {
                VisibleLogin::Likely => {}
                VisibleLogin::Unknown => {
                    notes.push("only a turn shows if it is logged in".to_owned());
                }
                VisibleLogin::None => {
                    let remedy = "run `claude auth login`, or name a `credential`".to_owned();
                    return Availability::Unauthenticated { remedy };
                }
            }
        }
        Availability::Ready { version: Some(version.to_string()), notes }
    }

    async fn prepare(
        &self,
        plan: &TurnPlan,
        attempt: Attempt,
    ) -> Result<Prepared<Self::Translator>, Failure> {
        let executable = self.executable().map_err(|error| Failure::of(ErrorKind::NotInstalled, &error))?;
        let AdmittedVersion { version, note } = self.version(&executable).await?;
        let mut warnings = Vec::from_iter(note);
        let request = &plan.request;
        VERSIONS.admit_output(&version, request, self.settings.versions)?;
        if request.model.as_ref().is_some_and(|model| model.as_str().trim().is_empty()) {
            return Err(Failure::new(ErrorKind::InvalidRequest, "the name of the model is empty"));
        }
        if let Some(tools) = &plan.tools {
            warnings.extend(mcp_config::inspect(tools.definitions(), &version)?);
        }
        // A repair is written to the running process, so this attempt means that the process has ended.
        if matches!(attempt, Attempt::Repair { .. }) {
            return Err(Failure::new(ErrorKind::OutputInvalid, "the process has ended and cannot retry"));
        }
        // The checks above need no credential, so a request that they reject borrows none.
        let lease = self.borrow(plan).await?;
        let lent = lease.as_ref().map(Lease::credential);
        let lent = lent
            .map(|credential| home::lent_variables(&self.settings, &self.service, credential))
            .transpose()?;
        let place = home::settle(plan, &attempt, &self.service, &self.context, lease.is_some())?;
        let keeps_conversation = place.session.is_kept();
        let closed = plan.login_folders();
        let has_sandbox = self.settings.has_sandbox(request.tool_access);
        let mut arguments = args::arguments(
            request,
            &ArgumentInputs {
                effort: plan.effort,
                keeps_conversation,
                resume: place.resume.as_deref(),
                closed: &closed,
                has_caller_tools: plan.tools.is_some(),
                has_approver: plan.has_approver,
                rules: match (has_sandbox, &lease) {
                    (false, _) => OwnRules::EnforceLevel,
                    // The folder of the user's login is writable in the sandbox, so the rules stay in force.
                    (true, None) => OwnRules::BesideSandbox,
                    (true, Some(_)) => OwnRules::LeftToSandbox,
                },
            },
        );
        // The echo shows when the model receives an input. Without inputs, it would only repeat the prompt.
        if plan.is_steered {
            arguments.push(args::ECHO.into());
        }
        let model_and_effort = request.model.as_ref().zip(plan.effort);
        // Only processes with the user's own login refresh it, so only these can race for the refresh.
        let first_turn = lease.is_none().then(FirstTurn::default);
        let startup =
            first_turn.as_ref().map_or_else(StartupWait::none, |first| first.wait(&plan.nexus_home));
        let translator = ClaudeTranslator::new(Opening {
            prompt: prompt::blocks(&request.prompt),
            system: request.system.clone(),
            schema: request.output.as_ref().map(|output| output.schema().clone()),
            access: request.tool_access,
            permissions: Permissions::of(plan),
            tools: plan.tools.clone(),
            billing: self.settings.billing,
            model_and_effort: model_and_effort
                .map(|(model, effort)| (model.as_str().to_owned(), args::word(effort.applied).to_owned())),
            session: place.session,
            first_turn,
        });
        let start = ProgramStart {
            plan,
            settings: &self.settings,
            host: &self.context.environment,
            executable,
            arguments,
            working_directory: place.working_directory,
            stdin: StdinMode::Open,
            sandbox: has_sandbox.then(|| self.sandbox_needs(place.home.path(), place.folders.config.clone())),
        };
        let lent = lent.unwrap_or_default();
        let ready = start
            .prepare(|builder| home::with_variables(builder, plan, &self.settings, &place.folders, &lent));
        let ReadyProcess { invocation, sandbox, .. } = ready.await?;
        Ok(Prepared {
            invocation,
            translator,
            home: Some(place.home),
            lease,
            sandbox,
            startup,
            version: Some(version.to_string()),
            warnings,
        })
    }

    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        RetainedSession::read(handle.state())?.place(nexus_home)
    }
}
