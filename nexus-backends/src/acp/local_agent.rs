//! One agent on this machine: its capabilities, and the preparation of one process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use nexus_core::{
    AccessSupport, AccessTable, Availability, BuildContext, Capabilities, CredentialSource, Enforcement,
    ErrorKind, ForgetSupport, LimitSupport, LoopMode, OutputSupport, ResumeHandle, SettingsError, Support,
    TextGranularity, ToolAccess, harness::Failure,
};
use nexus_process::environment::EnvironmentBuilder;
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::spawn::StdinMode;

use super::agent::{Furnishing, ProcessSetup};
use super::home;
use super::listed::ListedInputs;
use super::own_settings::{AgentHome, CheckedAgentSettings};
use super::program::{AgentProgram, LevelEnforcement};
use super::prompt::{prompt, text_bytes};
use super::sign_in::AgentLogin;
use super::translate::{AcpTranslator, Script};
use crate::auth::Lease;
use crate::cli::permission::Permissions;
use crate::cli::program_start::{ProgramStart, ReadyProcess, SandboxNeeds};
use crate::cli::refusal::unwritable;
use crate::cli::sandboxed_program::{SandboxFiles, SandboxHome};
use crate::cli::settings::{Billing, Settings, VersionsSetting};
use crate::cli::{Attempt, Cli, KeptConversation, Prepared, StartupWait, TurnPlan};
use crate::server_address::server_address;

/// Variables of the host that lead to the user's files, for a program in the user's home.
const USER_VARIABLES: [&str; 6] = ["HOME", "USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// Agent on this machine, with these settings.
#[derive(Debug)]
pub(crate) struct LocalAgent {
    program: AgentProgram,
    own: CheckedAgentSettings,
    settings: Settings,
    context: BuildContext,
    credential: Option<Arc<dyn CredentialSource>>,
    /// Number of processes so far, which makes message ids unique.
    processes: AtomicU64,
}

impl LocalAgent {
    pub(super) fn new(
        program: AgentProgram,
        own: CheckedAgentSettings,
        settings: &Settings,
        context: &BuildContext,
    ) -> Result<Self, SettingsError> {
        if let AgentProgram::Any { .. } = &program {
            if settings.executable.is_some() {
                return Err(SettingsError::new("executable", "is set by `command` for such a program"));
            }
            if settings.credential.is_some() {
                let reason = "only a known `agent` can be lent a credential so: lend it to another program in a variable, \
                              `environment: { NAME: { credential: … } }`";
                return Err(SettingsError::new("credential", reason));
            }
            if settings.base_url.is_some() {
                let reason = "only a known `agent` is given an address so: set the variable of another program in `environment`, \
                              and list the host in `hosts`";
                return Err(SettingsError::new("base_url", reason));
            }
        }
        if !matches!(program, AgentProgram::Any { .. }) && own.home == Some(AgentHome::User) {
            let reason = format!("{} has a home of its own: leave the setting out", program.name());
            return Err(SettingsError::new("home", reason));
        }
        if let Some(url) = &settings.base_url
            && server_address(url).is_none()
        {
            return Err(SettingsError::new("base_url", "is not the address of a server"));
        }
        if let Some(agent) = program.listed() {
            agent.check(settings.base_url.is_some(), settings.credential.is_some())?;
        }
        if let (AgentProgram::Known(_), Some(name)) = (&program, own.first_variable()) {
            let reason = format!("the variables of a known agent are set by Nexus: remove {name}");
            return Err(SettingsError::new("environment", reason));
        }
        let is_plan = settings.billing == Some(Billing::Plan);
        let takes_plan = program.known().is_none_or(|agent| agent.takes_plan);
        if is_plan && !takes_plan {
            let reason = format!("{} can be lent only an API key: write `metered`", program.name());
            return Err(SettingsError::new("billing", reason));
        }
        if settings.versions != VersionsSetting::default() {
            return Err(SettingsError::new(
                "versions",
                "agents have no tested versions: leave the setting out",
            ));
        }
        Ok(Self {
            credential: settings.credential_source(context)?,
            program,
            own,
            settings: settings.clone(),
            context: context.clone(),
            processes: AtomicU64::new(0),
        })
    }

    fn enforcement(&self, access: ToolAccess) -> Option<LevelEnforcement> {
        self.program.enforcement(access, self.settings.enforce)
    }

    fn has_own_home(&self) -> bool {
        let usual = match self.program {
            AgentProgram::Any { .. } => AgentHome::User,
            _ => AgentHome::Own,
        };
        self.own.home.unwrap_or(usual) == AgentHome::Own
    }

    /// Returns true if a process has a home of its own at this level. Only the sandbox can show the folders of a login in another home
    /// than the user's.
    fn has_own_home_at(&self, access: ToolAccess) -> bool {
        let needs_login = self.program.listed().is_some() && !self.login_folders().is_empty();
        self.has_own_home() && !(needs_login && access == ToolAccess::Unrestricted)
    }

    fn executable(&self) -> Result<Executable, ExecutableError> {
        let named = self.settings.executable.clone();
        let name = named.unwrap_or_else(|| self.program.program(&self.context.base_directory));
        Executable::find(name, self.context.environment.get("PATH").map(AsRef::as_ref))
    }

    async fn borrow(&self, plan: &TurnPlan) -> Result<Option<Lease>, Failure> {
        match (&self.credential, self.program.known()) {
            (Some(source), _) => Ok(Some(plan.borrow(source).await?)),
            (None, None) => Ok(None),
            (None, Some(agent)) => {
                let reason = format!("{} needs a lent credential: name one as `credential`", agent.name);
                Err(Failure::new(ErrorKind::Unauthenticated, reason))
            }
        }
    }

    /// Returns the files, variables and arguments of one process.
    fn furnish(&self, plan: &TurnPlan, home: &Path, lease: Option<&Lease>) -> Result<Furnishing, Failure> {
        let request = &*plan.request;
        let model = request.model.as_ref().map(|model| model.as_str());
        let base_url = self.settings.base_url.as_deref();
        let key = lease.map(|lease| lease.credential().token.expose());
        match (&self.program, key) {
            (AgentProgram::Known(agent), Some(token)) => Ok((agent.set_up)(&ProcessSetup {
                access: request.tool_access,
                home,
                closed: &plan.login_folders(),
                base_url,
                token,
                billing: self.settings.billing.unwrap_or(Billing::Metered),
                model,
                system: request.system.as_deref(),
            })),
            (AgentProgram::Listed(agent), key) => {
                let inputs = ListedInputs {
                    base_url,
                    key,
                    model,
                    has_tools: request.tool_access != ToolAccess::ScopedOnly,
                };
                agent.set_up(&inputs).map_err(|reason| Failure::new(ErrorKind::InvalidRequest, reason))
            }
            _ => Ok(Furnishing::default()),
        }
    }

    /// Returns the folders below the user's home with the agent's own login.
    fn login_folders(&self) -> Vec<PathBuf> {
        // A lent credential or another server replaces the login, which must not reach that server.
        let uses_login = self.credential.is_none() && self.settings.base_url.is_none();
        let listed = self.program.listed().filter(|_| uses_login).map(|agent| agent.login_folders.as_slice());
        let listed = listed.unwrap_or_default().iter().map(PathBuf::from);
        let mut folders: Vec<PathBuf> = listed.chain(self.own.login_folders.iter().cloned()).collect();
        folders.sort();
        folders.dedup();
        folders
    }

    /// Returns the login that a process of this program with these arguments uses.
    fn login(&self, program: &Path, arguments: &[OsString]) -> AgentLogin {
        let is_lent = self.credential.is_some() || self.settings.base_url.is_some();
        if is_lent || self.program.known().is_some() {
            return AgentLogin::Lent;
        }
        if self.has_own_home() && self.login_folders().is_empty() {
            return AgentLogin::Nowhere;
        }
        let words = std::iter::once(program.as_os_str()).chain(arguments.iter().map(OsString::as_os_str));
        AgentLogin::Person { command: words.map(|word| word.to_string_lossy().into_owned()).collect() }
    }
}

#[async_trait]
impl Cli for LocalAgent {
    type Translator = AcpTranslator;

    fn capabilities(&self) -> Capabilities {
        let yes = |is: bool| if is { Support::Yes } else { Support::No };
        let level = |access| match self.enforcement(access) {
            Some(enforcement) => AccessSupport::Kept(enforcement.by),
            None => AccessSupport::Unsupported,
        };
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.images = yes(self.program.has_images());
        capabilities.system = Support::Yes;
        capabilities.output = OutputSupport::Instructed;
        // The sessions of an agent with its own login are in the folder of the login, which is not stored or deleted.
        let is_stored = self.program.is_stored() && self.has_own_home() && self.login_folders().is_empty();
        capabilities.resume = yes(is_stored);
        capabilities.forget = match is_stored {
            true => ForgetSupport::Deletes,
            false => ForgetSupport::Unsupported,
        };
        capabilities.harness_tools = Support::Yes;
        capabilities.caller_tools = yes(!self.program.listed().is_some_and(|agent| agent.lacks_caller_tools));
        capabilities.approvals = Support::Yes;
        capabilities.access = AccessTable {
            scoped_only: level(ToolAccess::ScopedOnly),
            read_only: level(ToolAccess::ReadOnly),
            workspace_write: level(ToolAccess::WorkspaceWrite),
            unrestricted: level(ToolAccess::Unrestricted),
        };
        capabilities.limits = LimitSupport::new().with_tool_calls(Enforcement::Ours);
        capabilities.cost = self.program.cost();
        capabilities
    }

    async fn probe(&self) -> Availability {
        match self.executable() {
            Ok(_) => {}
            Err(ExecutableError::Missing { looked_in, .. }) => {
                return Availability::NotInstalled { looked_in, remedy: self.program.install().to_owned() };
            }
            Err(error) => {
                return Availability::Unusable { reason: format!("{error}: {}", self.program.install()) };
            }
        }
        match (&self.credential, self.program.known()) {
            (Some(source), _) => {
                if let Err(error) = source.standing().await {
                    return Availability::Unauthenticated { remedy: error.to_string() };
                }
                Availability::Ready { version: None, notes: Vec::new() }
            }
            (None, Some(agent)) => {
                let remedy = format!("name a `credential` to lend to {}", agent.name);
                Availability::Unauthenticated { remedy }
            }
            (None, None) => Availability::Ready {
                version: None,
                notes: vec!["only a turn shows if it is signed in".to_owned()],
            },
        }
    }

    async fn prepare(
        &self,
        plan: &TurnPlan,
        attempt: Attempt,
    ) -> Result<Prepared<Self::Translator>, Failure> {
        let request = &*plan.request;
        let executable = self.executable().map_err(|error| {
            Failure::new(ErrorKind::NotInstalled, format!("{error}: {}", self.program.install()))
                .with_source(error)
        })?;
        if let Some((agent, longest)) = self.program.longest_prompt()
            && text_bytes(request) > longest
        {
            let reason = format!(
                "the prompt has more than {longest} bytes, of which {agent} shows its model only a part"
            );
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        let Some(enforcement) = self.enforcement(request.tool_access) else {
            let reason = "nothing enforces the access level".to_owned();
            return Err(Failure::new(ErrorKind::Unsupported, reason));
        };
        let lease = self.borrow(plan).await?;
        let mut secrets = Vec::new();
        for (name, source) in &self.own.secrets {
            let lease = plan.borrow_further(source).await?;
            secrets.push((name.clone(), lease.credential().token.expose().to_owned()));
        }
        let place = home::settle(plan, &attempt, self.program.name())?;
        let furnishing = self.furnish(plan, &place.home, lease.as_ref())?;
        for (name, content) in &furnishing.files {
            write(&place.home, name, content)?;
        }
        let has_own_home = self.has_own_home_at(request.tool_access);
        let variables = |builder: EnvironmentBuilder| {
            let mut builder = plan.complete(builder);
            if let Some(file) = &self.settings.network.ca_file {
                builder = builder.with("NODE_EXTRA_CA_CERTS", file).with("SSL_CERT_FILE", file);
            }
            builder = match (enforcement.in_sandbox, has_own_home) {
                // The sandbox sets the home itself.
                (true, _) => builder,
                (false, true) => builder.with("HOME", &place.home),
                (false, false) => builder.pass(USER_VARIABLES),
            };
            for (name, value) in &furnishing.variables {
                builder = builder.with(name, value);
            }
            for (name, value) in
                self.own.texts.iter().chain(secrets.iter().map(|(name, value)| (name, value)))
            {
                builder = builder.with(name, value);
            }
            builder
        };
        let protocol = self.program.arguments().into_iter().map(OsString::from);
        let arguments: Vec<OsString> = match self.program {
            // Options of the program precede the command that selects the protocol.
            AgentProgram::Known(_) => furnishing.arguments.iter().cloned().chain(protocol).collect(),
            _ => protocol.chain(furnishing.arguments.iter().cloned()).collect(),
        };
        let login = self.login(executable.path(), &arguments);
        let sandbox = enforcement.in_sandbox.then(|| SandboxNeeds {
            files: SandboxFiles {
                home: if has_own_home { SandboxHome::Folder(place.home.clone()) } else { SandboxHome::Empty },
                writable: Vec::new(),
                login_folders: self.login_folders(),
                read_only: Vec::new(),
                settings: Vec::new(),
            },
            hosts: self.program.hosts().into_iter().map(str::to_owned).collect(),
        });
        let start = ProgramStart {
            plan,
            settings: &self.settings,
            host: &self.context.environment,
            executable,
            arguments,
            working_directory: place.working_directory,
            stdin: StdinMode::Open,
            sandbox,
        };
        let ReadyProcess { invocation, sandbox, working_directory } = start.prepare(variables).await?;
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let permissions = Permissions::of(plan);
        // A known agent gets the model before its process starts, and others may.
        let is_model_set = self.program.known().is_some() || furnishing.sets_model;
        let named = request.model.as_ref().filter(|_| !is_model_set).map(|model| model.as_str().to_owned());
        let model = furnishing.session_model.or(named);
        let translator = AcpTranslator::new(Script {
            backend: plan.backend.clone(),
            working_directory,
            // The set-up of a known agent has the system text.
            prompt: prompt(request, self.program.known().map_or(request.system.as_deref(), |_| None)),
            meta: furnishing.meta,
            authentication: furnishing.authentication,
            extensions: self.program.listed().map(|agent| agent.extensions.clone()).unwrap_or_default(),
            mode: enforcement.mode,
            model,
            tools: plan.tools.clone(),
            permissions: if enforcement.in_sandbox { permissions.in_sandbox() } else { permissions },
            session: place.session,
            resume: place.resume,
            names: self.program.names(),
            leaves_session: !has_own_home && !enforcement.in_sandbox || !self.login_folders().is_empty(),
            takes_questions: plan.takes_questions,
            login,
            usage: self.program.usage(),
            is_broken_uncounted: self.program.is_broken_uncounted(),
            own_words: self.program.own_words(),
            exit: self.program.exit(),
            prefix: format!("{process}-"),
        });
        Ok(Prepared {
            invocation,
            translator,
            home: place.private,
            sandbox,
            lease,
            startup: StartupWait::none(),
            version: None,
            warnings: self.program.dropped_pictures(&request.prompt),
        })
    }

    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        home::kept(nexus_home, handle, self.program.name())
    }
}

/// Writes a file of a process into its home, owner-only. An earlier process of a stored conversation may have put links there, which
/// are replaced, never followed.
fn write(home: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let path = home.join(name);
    let written = (|| {
        let mut folder = home.to_owned();
        for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            if folder.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
                std::fs::remove_file(&folder)?;
            }
            nexus_files::make_private_folder(&folder)?;
        }
        // Replacing renames a new file over the old one, or over a link.
        nexus_files::replace(&path, content.as_bytes())
    })();
    written.map_err(|error| unwritable(path.display(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_an_earlier_process_are_replaced_and_never_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (home, victim) = (folder.path().join("home"), folder.path().join("victim"));
        std::fs::create_dir_all(home.join(".codex")).unwrap();
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("file"), "kept").unwrap();
        let link = |target: &Path, path: &Path| std::os::unix::fs::symlink(target, path).unwrap();
        link(&victim.join("file"), &home.join(".codex/config.toml"));
        write(&home, ".codex/config.toml", "new").unwrap();
        link(&victim, &home.join(".factory"));
        write(&home, ".factory/settings.json", "new").unwrap();
        link(&victim.join("missing"), &home.join(".dangling"));
        write(&home, ".dangling/settings.json", "new").unwrap();
        assert_eq!(std::fs::read_to_string(victim.join("file")).unwrap(), "kept");
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 1);
        for name in [".codex/config.toml", ".factory/settings.json", ".dangling/settings.json"] {
            assert_eq!(std::fs::read_to_string(home.join(name)).unwrap(), "new");
            assert!(!home.join(name).is_symlink(), "{name}");
        }
    }
}
