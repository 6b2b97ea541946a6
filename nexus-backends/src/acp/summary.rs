//! Agents that the kind `acp` knows, for lists.

use nexus_core::{AccessSupport, AccessTable, ToolAccess};

use super::agent::KnownAgent;
use super::evidence::AgentFactsEvidence;
use super::listed;
use super::listed::ListedAgent;
use super::program::AgentProgram;
use crate::registry::vendors;
use crate::vendor::Vendor;

/// An agent that the kind `acp` knows by name.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq)]
pub struct KnownAgentSummary {
    /// Name, for `agent:` of a backend.
    pub name: String,
    /// Name of the product.
    pub title: String,
    /// The vendor, as the spread of a panel counts it.
    pub vendor: String,
    /// Program and arguments that start it.
    pub command: Vec<String>,
    /// Advice on how to install it.
    pub install: String,
    /// Enforcement of each access level by default.
    pub access: AccessTable,
    /// API that a server at `base_url` must speak; `None` if the agent takes no `base_url`.
    pub wire: Option<String>,
    /// True if it takes a `credential`.
    pub takes_credential: bool,
    /// Hosts that it reaches from the sandbox without `base_url`.
    pub hosts: Vec<String>,
    /// Folders below the user's home with its own login.
    pub login_folders: Vec<String>,
    /// Evidence for these facts.
    pub evidence: AgentFactsEvidence,
    /// Version of the program that was tried.
    pub version: Option<String>,
    /// Page that describes it.
    pub source: Option<String>,
}

/// Returns the agents that the kind `acp` knows, by name.
#[must_use]
pub fn agents() -> Vec<KnownAgentSummary> {
    let known = vendors().iter().flat_map(Vendor::agents).map(of_known);
    let mut all: Vec<_> = known.chain(listed::table().values().map(of_listed)).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

fn of_known(agent: &'static KnownAgent) -> KnownAgentSummary {
    KnownAgentSummary {
        name: agent.name.to_owned(),
        title: agent.name.to_owned(),
        wire: Some(agent.wire.to_owned()),
        takes_credential: true,
        evidence: AgentFactsEvidence::Measured,
        ..of_program(&AgentProgram::Known(agent))
    }
}

fn of_listed(agent: &'static ListedAgent) -> KnownAgentSummary {
    KnownAgentSummary {
        name: agent.name.clone(),
        title: agent.title.clone(),
        wire: agent.wire.clone(),
        takes_credential: agent.takes_credential(),
        login_folders: agent.login_folders.clone(),
        evidence: agent.checked,
        version: agent.version.clone(),
        source: Some(agent.source.clone()),
        ..of_program(&AgentProgram::Listed(agent))
    }
}

fn of_program(program: &AgentProgram) -> KnownAgentSummary {
    let level = |access: ToolAccess| match program.enforcement(access, None) {
        Some(enforcement) => AccessSupport::Kept(enforcement.by),
        None => AccessSupport::Unsupported,
    };
    let command = std::iter::once(program.program("".as_ref()).to_string_lossy().into_owned());
    KnownAgentSummary {
        name: String::new(),
        title: String::new(),
        vendor: program.vendor().unwrap_or_default().to_owned(),
        command: command.chain(program.arguments().into_iter().map(str::to_owned)).collect(),
        install: program.install().to_owned(),
        access: AccessTable {
            scoped_only: level(ToolAccess::ScopedOnly),
            read_only: level(ToolAccess::ReadOnly),
            workspace_write: level(ToolAccess::WorkspaceWrite),
            unrestricted: level(ToolAccess::Unrestricted),
        },
        wire: None,
        takes_credential: false,
        hosts: program.hosts().into_iter().map(str::to_owned).collect(),
        login_folders: Vec::new(),
        evidence: AgentFactsEvidence::Documentation,
        version: None,
        source: None,
    }
}
