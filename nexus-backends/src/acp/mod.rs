//! `acp`: any program that speaks the Agent Client Protocol, one process per turn.
//!
//! The access levels of a **known agent** (`agent: NAME`) were measured with the real program
//! (`docs/reference/agents.md`). A level that the agent does not enforce is rejected. The agent has a private home,
//! which is removed after the turn or stored with the conversation. It borrows a credential, and sends its requests to
//! `base_url`. The vendors' folders define the known agents.
//!
//! **Any other program** (`command: [PROGRAM, ARGUMENT…]`) runs as in an editor: with the user's home, and so with its
//! own login, settings and sessions. It may act without a permission request, so it runs only at `unrestricted`.
//!
//! | feature | implementation |
//! | --- | --- |
//! | the mode of the session | set on every session, if the level needs one; a change of the mode ends the turn |
//! | permissions | decided by access level and path, then by the host's approver; an approval holds only for that call |
//! | the agent's files and terminals | not offered: the agent uses its own, under the level that it enforces |
//! | the caller's tools | through MCP over HTTP; the prompt is sent after the agent has listed them |
//! | `end_turn` | an answer if it has text; from an agent that also ends a broken stream like this, only if it has counted tokens |
//! | a plan | a harmless `Unrecognized` event, because no other event fits |
//!
//! Source of the facts about the protocol: its schema, revision 1, and the known agents with loopback servers.

#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
pub(crate) mod agent;
mod failure;
mod home;
mod session_answers;
#[cfg(test)]
mod tests;
mod tool_calls;
mod translate;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, AccessTable, Availability, BackendId, BackendKind, BuildContext,
    Capabilities, CostReport, CredentialSource, Enforcement, ErrorKind, ExecutionBackend, ForgetSupport,
    LimitSupport, LoopMode, OutputSupport, PromptBlock, ResumeHandle, SettingsError, Support,
    TextGranularity, ToolAccess, TurnRequest, VendorId, harness::Failure, settings_schema,
};
use nexus_process::environment::{EnvironmentError, NetworkSettings};
use nexus_process::executable::{Executable, ExecutableError};
use nexus_process::spawn::{Invocation, StdinMode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use self::agent::{Furnishing, KnownAgent, ProcessSetup, UsageReport};
use self::translate::{AcpTranslator, Script};
use crate::auth::Lease;
use crate::cli::caller_tools;
use crate::cli::permission::Permissions;
use crate::cli::refusal::unwritable;
use crate::cli::settings::{Billing, Settings, VersionsSetting};
use crate::cli::{Attempt, Cli, CliBackend, KeptConversation, Prepared, StartupWait, TurnPlan};
use crate::settings::part;
use crate::vendor::Vendor;

/// Longest time until an unknown program exits after its input is closed. Source: our own choice; the known agents take
/// up to 2.2 seconds, or never exit.
const EXIT: Duration = Duration::from_secs(3);

/// The backend kind as a vendor. It belongs to no vendor: the vendors' folders define its agents, and the code that
/// collects these creates the kind.
pub(crate) const VENDOR: Vendor = Vendor::new("acp", &[]);

/// The backend kind `acp`: an agent that speaks the Agent Client Protocol.
///
/// Settings: `agent`, or `command`; `vendor`; and `executable`, `credential`, `billing`, `base_url`, `record`,
/// `max_line_bytes`, `containment`, `network` as for every delegated backend.
#[derive(Clone, Debug)]
pub struct Acp {
    known: Arc<[&'static KnownAgent]>,
}

/// Settings of this kind alone.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Own {
    /// An agent that Nexus knows, by its name in `docs/reference/agents.md`.
    agent: Option<String>,
    /// Any other program that speaks the protocol on its standard input and output, and its arguments.
    #[schemars(length(min = 1))]
    command: Option<Vec<String>>,
    /// The vendor whose model answers, for panels of several vendors. Default: that of the known agent, else the name of the
    /// program.
    vendor: Option<String>,
}

impl Acp {
    /// Creates the kind with these known agents.
    pub(crate) fn of(known: impl IntoIterator<Item = &'static KnownAgent>) -> Self {
        Self { known: known.into_iter().collect() }
    }

    fn find(&self, name: &str) -> Result<&'static KnownAgent, SettingsError> {
        self.known.iter().find(|agent| agent.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = self.known.iter().map(|agent| agent.name).collect();
            let reason = format!(
                "is not a known agent; write {}, or name another program with `command`",
                names.join(", ")
            );
            SettingsError::new("agent", reason)
        })
    }
}

impl BackendKind for Acp {
    fn name(&self) -> &str {
        "acp"
    }

    fn vendor(&self, settings: &Map<String, Value>) -> VendorId {
        let text = |key: &str| settings.get(key).and_then(Value::as_str);
        let known = || self.find(text("agent")?).ok().map(|agent| agent.vendor.to_owned());
        let program = || {
            let program = Path::new(settings.get("command")?.get(0)?.as_str()?);
            Some(program.file_stem()?.to_string_lossy().into_owned())
        };
        let vendor = text("vendor").map(str::to_owned).or_else(known).or_else(program);
        vendor.unwrap_or_else(|| "unknown".to_owned()).into()
    }

    fn settings_schema(&self) -> Value {
        settings_schema::with_own::<Settings, Own>()
    }

    fn build(
        &self,
        id: BackendId,
        settings: &Map<String, Value>,
        context: &BuildContext,
    ) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
        let (own, shared) = part::<Own>(settings)?;
        let program = match (own.agent, own.command) {
            (Some(name), None) => AgentProgram::Known(self.find(&name)?),
            (None, Some(command)) => match command.split_first() {
                Some((program, arguments)) if !program.is_empty() => {
                    AgentProgram::Any { program: program.into(), arguments: arguments.to_vec() }
                }
                _ => return Err(SettingsError::new("command", "names no program")),
            },
            (Some(_), Some(_)) => {
                return Err(SettingsError::new(
                    "command",
                    "applies only to a program that is not a known \
                    `agent`",
                ));
            }
            (None, None) => {
                let reason = "name a known agent here, or another program with `command`";
                return Err(SettingsError::new("agent", reason));
            }
        };
        CliBackend::build(id, &shared, context, |settings, context| {
            LocalAgent::new(program, settings, context)
        })
    }
}

/// Program of an agent.
#[derive(Debug)]
enum AgentProgram {
    Known(&'static KnownAgent),
    Any { program: PathBuf, arguments: Vec<String> },
}

/// Agent on this machine, with these settings.
#[derive(Debug)]
pub(crate) struct LocalAgent {
    program: AgentProgram,
    settings: Settings,
    context: BuildContext,
    credential: Option<Arc<dyn CredentialSource>>,
    /// Number of processes so far, which makes message ids unique.
    processes: AtomicU64,
}

impl LocalAgent {
    fn new(
        program: AgentProgram,
        settings: &Settings,
        context: &BuildContext,
    ) -> Result<Self, SettingsError> {
        if let (AgentProgram::Any { .. }, Some(_)) = (&program, &settings.executable) {
            return Err(SettingsError::new("executable", "is set by `command` for such a program"));
        }
        if let (AgentProgram::Any { .. }, true) =
            (&program, settings.credential.is_some() || settings.base_url.is_some())
        {
            let key = if settings.credential.is_some() { "credential" } else { "base_url" };
            let reason = "only a known `agent` can be lent a credential: another program uses its own";
            return Err(SettingsError::new(key, reason));
        }
        let is_plan = settings.billing == Some(Billing::Plan);
        if let (AgentProgram::Known(KnownAgent { name, takes_plan: false, .. }), true) = (&program, is_plan) {
            return Err(SettingsError::new(
                "billing",
                format!(
                    "{name} can be lent only an API key: write \
                `metered`"
                ),
            ));
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
            settings: settings.clone(),
            context: context.clone(),
            processes: AtomicU64::new(0),
        })
    }

    fn known(&self) -> Option<&KnownAgent> {
        match &self.program {
            AgentProgram::Known(agent) => Some(agent),
            AgentProgram::Any { .. } => None,
        }
    }

    /// Returns the name under which conversations are stored.
    fn name(&self) -> &str {
        self.known().map_or("other", |agent| agent.name)
    }

    fn executable(&self) -> Result<Executable, ExecutableError> {
        let name = match (&self.program, &self.settings.executable) {
            (_, Some(named)) => named.clone(),
            (AgentProgram::Known(agent), None) => agent.program.into(),
            // A path is relative to the configuration's folder, as in all settings.
            (AgentProgram::Any { program, .. }, None) => match program.components().count() {
                0 | 1 => program.clone(),
                _ => self.context.base_directory.join(program),
            },
        };
        Executable::find(name, self.context.environment.get("PATH").map(AsRef::as_ref))
    }

    fn install(&self) -> &str {
        self.known().map_or("write its path in `command`", |agent| agent.install)
    }

    async fn borrow(&self, plan: &TurnPlan) -> Result<Option<Lease>, Failure> {
        match (&self.credential, &self.program) {
            (Some(source), _) => Ok(Some(plan.borrow(source).await?)),
            (None, AgentProgram::Any { .. }) => Ok(None),
            (None, AgentProgram::Known(agent)) => {
                let reason = format!("{} needs a lent credential: name one as `credential`", agent.name);
                Err(Failure::new(ErrorKind::Unauthenticated, reason))
            }
        }
    }
}

#[async_trait]
impl Cli for LocalAgent {
    type Translator = AcpTranslator;

    fn capabilities(&self) -> Capabilities {
        let yes = |is: bool| if is { Support::Yes } else { Support::No };
        let known = self.known();
        let level = |access| match known {
            Some(agent) => agent.support(access),
            None if access == ToolAccess::Unrestricted => AccessSupport::Kept(AccessEnforcer::None),
            None => AccessSupport::Unsupported,
        };
        let mut capabilities = Capabilities::new(LoopMode::Delegated);
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.images = yes(known.is_some_and(|agent| agent.has_images));
        capabilities.system = yes(known.is_some_and(|agent| agent.has_system));
        capabilities.output = OutputSupport::Instructed;
        capabilities.resume = yes(known.is_some());
        capabilities.forget = match known {
            Some(_) => ForgetSupport::Deletes,
            None => ForgetSupport::Unsupported,
        };
        capabilities.harness_tools = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.approvals = Support::Yes;
        capabilities.access = AccessTable {
            scoped_only: level(ToolAccess::ScopedOnly),
            read_only: level(ToolAccess::ReadOnly),
            workspace_write: level(ToolAccess::WorkspaceWrite),
            unrestricted: level(ToolAccess::Unrestricted),
        };
        capabilities.limits = LimitSupport::new().with_tool_calls(Enforcement::Ours);
        capabilities.cost = known.map_or(CostReport::Estimated, |agent| agent.cost);
        capabilities
    }

    async fn probe(&self) -> Availability {
        match self.executable() {
            Ok(_) => {}
            Err(ExecutableError::Missing { looked_in, .. }) => {
                return Availability::NotInstalled { looked_in, remedy: self.install().to_owned() };
            }
            Err(error) => return Availability::Unusable { reason: format!("{error}: {}", self.install()) },
        }
        match (&self.credential, &self.program) {
            (Some(source), _) => {
                if let Err(error) = source.standing().await {
                    return Availability::Unauthenticated { remedy: error.to_string() };
                }
                Availability::Ready { version: None, notes: Vec::new() }
            }
            (None, AgentProgram::Known(agent)) => {
                let remedy = format!("name a `credential` to lend to {}", agent.name);
                Availability::Unauthenticated { remedy }
            }
            (None, AgentProgram::Any { .. }) => Availability::Ready {
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
            Failure::new(ErrorKind::NotInstalled, format!("{error}: {}", self.install())).with_source(error)
        })?;
        if let Some((longest, agent)) =
            self.known().and_then(|agent| Some((agent.longest_prompt?, agent.name)))
            && text_bytes(request) > longest
        {
            let reason = format!(
                "the prompt has more than {longest} bytes, of which {agent} shows its model only a part"
            );
            return Err(Failure::new(ErrorKind::InvalidRequest, reason));
        }
        let lease = self.borrow(plan).await?;
        let place = home::settle(plan, &attempt, self.name())?;
        let model = request.model.as_ref().map(|model| model.as_str());
        let furnishing = match (self.known(), &lease) {
            (Some(agent), Some(lease)) => (agent.set_up)(&ProcessSetup {
                access: request.tool_access,
                home: &place.home,
                closed: &plan.login_folders(),
                base_url: self.settings.base_url.as_deref(),
                token: lease.credential().token.expose(),
                billing: self.settings.billing.unwrap_or(Billing::Metered),
                model,
                system: request.system.as_deref(),
            }),
            _ => Furnishing::default(),
        };
        for (name, content) in &furnishing.files {
            write(&place.home, name, content)?;
        }
        let mut builder = plan.environment(&self.context.environment);
        if self.settings.network.inherit_proxy {
            builder = builder.network(NetworkSettings::Pass);
        }
        if let Some(file) = &self.settings.network.ca_file {
            builder = builder.with("NODE_EXTRA_CA_CERTS", file).with("SSL_CERT_FILE", file);
        }
        builder = match self.known() {
            Some(_) => builder.with("HOME", &place.home),
            None => builder.pass(["HOME", "USER", "LOGNAME", "SHELL", "XDG_CONFIG_HOME", "XDG_DATA_HOME"]),
        };
        for (name, value) in furnishing.variables {
            builder = builder.with(name, value);
        }
        let invalid = |error: EnvironmentError| Failure::of(ErrorKind::InvalidRequest, &error);
        let mut environment = builder.build().map_err(invalid)?;
        if plan.tools.is_some() {
            environment.bypass_proxies(caller_tools::HOST).map_err(invalid)?;
        }
        let arguments: Vec<_> = match &self.program {
            AgentProgram::Known(agent) => {
                // The arguments of the set-up precede the arguments that select the protocol.
                furnishing.arguments.into_iter().chain(agent.arguments.iter().map(Into::into)).collect()
            }
            AgentProgram::Any { arguments, .. } => arguments.iter().map(Into::into).collect(),
        };
        let process = self.processes.fetch_add(1, Ordering::Relaxed);
        let known = self.known();
        let translator = AcpTranslator::new(Script {
            backend: plan.backend.clone(),
            working_directory: place.working_directory.clone(),
            prompt: prompt(request),
            meta: furnishing.meta,
            mode: known.and_then(|agent| agent.mode(request.tool_access)),
            // A known agent gets the model before its process starts, not in the session.
            model: model.filter(|_| known.is_none()).map(str::to_owned),
            tools: plan.tools.clone(),
            permissions: Permissions::of(plan),
            session: place.session,
            resume: place.resume,
            names: known.map(|agent| agent.names).unwrap_or_default(),
            usage: known.map_or(UsageReport::Answer, |agent| agent.usage),
            is_broken_uncounted: known.is_some_and(|agent| agent.is_broken_uncounted),
            own_words: known.map_or(agent::any_kind, |agent| agent.kind_of),
            exit: known.map_or(EXIT, |agent| agent.exit),
            prefix: format!("{process}-"),
        });
        let invocation = Invocation::new(executable, &place.working_directory)
            .arguments(arguments)
            .environment(environment)
            .stdin(StdinMode::Open);
        Ok(Prepared {
            invocation,
            translator,
            home: place.private,
            lease,
            startup: StartupWait::none(),
            version: None,
            warnings: known.map(|agent| (agent.dropped_pictures)(&request.prompt)).unwrap_or_default(),
        })
    }

    fn kept(&self, nexus_home: &Path, handle: &ResumeHandle) -> Option<KeptConversation> {
        home::kept(nexus_home, handle, self.name())
    }
}

/// Converts the prompt into blocks of the protocol.
fn prompt(request: &TurnRequest) -> Vec<Value> {
    let block = |block: &PromptBlock| match block {
        // An agent would treat a text that begins with a slash as a command. A leading line break prevents this.
        PromptBlock::Text { text } if text.starts_with('/') => {
            Some(json!({ "type": "text", "text": format!("\n{text}") }))
        }
        PromptBlock::Text { text } => Some(json!({ "type": "text", "text": text })),
        PromptBlock::Image { media_type, data } => {
            Some(json!({ "type": "image", "mimeType": media_type, "data": data }))
        }
        _ => None,
    };
    let mut blocks: Vec<Value> = request.prompt.iter().filter_map(block).collect();
    // One agent trims that line break from the first block, so put an empty block before it.
    if blocks.first().and_then(|block| block["text"].as_str()).is_some_and(|text| text.starts_with('\n')) {
        blocks.insert(0, json!({ "type": "text", "text": "" }));
    }
    if let Some(output) = &request.output {
        blocks.push(json!({ "type": "text", "text": output.instruction() }));
    }
    blocks
}

/// Returns the size of the prompt's text, in bytes.
fn text_bytes(request: &TurnRequest) -> usize {
    let bytes = |block: &PromptBlock| match block {
        PromptBlock::Text { text } => text.len(),
        _ => 0,
    };
    request.prompt.iter().map(bytes).sum()
}

/// Writes a file of a process into its home, owner-only.
fn write(home: &Path, name: &str, content: &str) -> Result<(), Failure> {
    let path = home.join(name);
    let written = (|| {
        if let Some(folder) = path.parent() {
            nexus_files::make_private_folder(folder)?;
        }
        std::fs::write(&path, content)
    })();
    written.map_err(|error| unwritable(path.display(), error))
}
