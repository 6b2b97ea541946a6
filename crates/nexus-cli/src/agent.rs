//! `nexus agent`: the agents that a backend of the kind `acp` can name.

use std::process::ExitCode;

use nexus::{AccessEnforcer, AccessSupport, AccessTable, AgentFactsEvidence, KnownAgentSummary};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    args::AgentCommand,
    command_error::CommandError,
    output::{AnswerWriter, printable},
};

/// An agent that a backend can name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedAgent {
    /// Name, for `agent:` of a backend.
    agent: String,
    /// Name of the product.
    title: String,
    /// The vendor, as the spread of a panel counts it.
    vendor: String,
    /// Program and arguments that start it.
    command: Vec<String>,
    /// Advice on how to install it.
    install: String,
    /// Enforcer of each access level.
    access: LevelEnforcers,
    /// API that a server at `base_url` must speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire: Option<String>,
    /// True if it takes a `credential`.
    takes_credential: bool,
    /// Hosts that it reaches from the sandbox without `base_url`.
    hosts: Vec<String>,
    /// Folders below the user's home with its own login.
    login_folders: Vec<String>,
    /// Evidence for these facts.
    #[schemars(with = "String")]
    evidence: AgentFactsEvidence,
    /// Version of the program that was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    /// Page that describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

/// Enforcer of each access level: program, sandbox, none where nothing has to be enforced, or no: such a turn is rejected.
#[derive(Debug, Serialize, JsonSchema)]
struct LevelEnforcers {
    scoped_only: &'static str,
    read_only: &'static str,
    workspace_write: &'static str,
    unrestricted: &'static str,
}

/// Widths of the columns of the list.
#[derive(Clone, Copy, Default)]
struct Columns {
    name: usize,
    title: usize,
}

pub(crate) fn agent(out: AnswerWriter, command: &AgentCommand) -> Result<ExitCode, CommandError> {
    let agents: Vec<ListedAgent> = nexus::agents().into_iter().map(ListedAgent::of).collect();
    match command {
        AgentCommand::List => {
            let columns = Columns {
                name: agents.iter().map(|agent| agent.agent.len()).max().unwrap_or_default(),
                title: agents.iter().map(|agent| agent.title.len()).max().unwrap_or_default(),
            };
            for agent in &agents {
                out.line(agent, printable(&agent.in_list(columns)));
            }
        }
        AgentCommand::Show { name } => {
            let Some(agent) = agents.iter().find(|agent| agent.agent == *name) else {
                let names: Vec<_> = agents.iter().map(|agent| agent.agent.as_str()).collect();
                let message = format!(
                    "unknown agent {name:?}; known: {}. Any other program runs with `command:` of the kind acp",
                    names.join(", ")
                );
                return Err(CommandError::usage(message));
            };
            out.line(agent, printable(&agent.in_full()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ListedAgent {
    fn of(agent: KnownAgentSummary) -> Self {
        Self {
            agent: agent.name,
            title: agent.title,
            vendor: agent.vendor,
            command: agent.command,
            install: agent.install,
            access: LevelEnforcers::of(agent.access),
            wire: agent.wire,
            takes_credential: agent.takes_credential,
            hosts: agent.hosts,
            login_folders: agent.login_folders,
            evidence: agent.evidence,
            version: agent.version,
            source: agent.source,
        }
    }

    fn in_list(&self, Columns { name, title }: Columns) -> String {
        let LevelEnforcers { scoped_only, read_only, workspace_write, .. } = &self.access;
        format!(
            "{:name$}  {:title$}  scoped-only {scoped_only:7}  read-only {read_only:7}  workspace-write {workspace_write:7}  {}",
            self.agent,
            self.title,
            self.evidence.as_str()
        )
    }

    fn in_full(&self) -> String {
        let LevelEnforcers { scoped_only, read_only, workspace_write, unrestricted } = &self.access;
        let list = |words: &[String]| match words {
            [] => "none".to_owned(),
            words => words.join(", "),
        };
        let tried = match (self.evidence, &self.version) {
            (AgentFactsEvidence::Documentation, _) => {
                "not run by Nexus; its documentation says so".to_owned()
            }
            (_, Some(version)) => format!("version {version}, before a simulated model"),
            _ => "see docs/reference/agents.md".to_owned(),
        };
        let folders: Vec<String> = self.login_folders.iter().map(|folder| format!("~/{folder}")).collect();
        let mut lines = vec![
            format!("{} ({})", self.title, self.agent),
            format!("  command      {}", self.command.join(" ")),
            format!("  install      {}", self.install),
            format!("  vendor       {}", self.vendor),
            format!(
                "  enforced by  scoped-only: {scoped_only} · read-only: {read_only} · workspace-write: {workspace_write} · \
                 unrestricted: {unrestricted}"
            ),
            format!("  own login    {}", list(&folders)),
            format!("  own hosts    {}", list(&self.hosts)),
            format!(
                "  base_url     {}",
                self.wire
                    .as_deref()
                    .map_or("not taken".to_owned(), |wire| format!("a server that speaks {wire}"))
            ),
            format!("  tried        {tried}"),
        ];
        lines.extend(self.source.iter().map(|source| format!("  source       {source}")));
        lines.push(String::new());
        lines.push("An entry for nexus.yaml:".to_owned());
        lines.push(String::new());
        lines.push("  backends:".to_owned());
        let credential = match (self.takes_credential, &self.wire) {
            (true, Some(wire)) if matches!(wire.as_str(), "messages" | "gemini") => {
                ", base_url: \"http://127.0.0.1:8080\", credential: { env: MY_KEY }"
            }
            (true, Some(_)) => ", base_url: \"http://127.0.0.1:8080/v1\", credential: { env: MY_KEY }",
            (true, None) => ", credential: { env: MY_KEY }",
            (false, _) => "",
        };
        lines.push(format!("    {}: {{ kind: acp, agent: {}{credential} }}", self.agent, self.agent));
        lines.join("\n")
    }
}

impl LevelEnforcers {
    fn of(access: AccessTable) -> Self {
        let enforcer = |support: AccessSupport| match support {
            AccessSupport::Kept(AccessEnforcer::Nexus) => "sandbox",
            AccessSupport::Kept(AccessEnforcer::None) => "none",
            AccessSupport::Kept(_) => "program",
            _ => "no",
        };
        Self {
            scoped_only: enforcer(access.scoped_only),
            read_only: enforcer(access.read_only),
            workspace_write: enforcer(access.workspace_write),
            unrestricted: enforcer(access.unrestricted),
        }
    }
}
