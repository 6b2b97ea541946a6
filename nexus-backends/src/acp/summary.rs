//! Agents that the kind `acp` knows, for lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use nexus_core::{AccessSupport, AccessTable, BuildContext, ToolAccess};

use super::agent::KnownAgent;
use super::agent::UsageReport;
use super::evidence::AgentFactsEvidence;
use super::judgement::AgentJudgement;
use super::kind::Acp;
use super::listed;
use super::listed::ListedAgent;
use super::program::AgentProgram;
use super::user_agents::{AgentFileError, AgentFiles};
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
    /// True if the row is in the home.
    pub is_yours: bool,
    /// True if the caller's tools reach it.
    pub has_caller_tools: bool,
    /// True if it offers the caller's tools through a search, and its model calls them as `mcp__nexus__NAME`.
    pub hides_caller_tools: bool,
    /// True if it accepts images.
    pub has_images: bool,
    /// True if it resumes its conversations in another process.
    pub resumes: bool,
    /// True if it reports the usage of a turn.
    pub reports_usage: bool,
    /// Promises of the conformance suite that it cannot fulfil by its nature, with the reasons.
    pub cannot: BTreeMap<String, String>,
    /// Last recorded judgement.
    pub judged: Option<AgentJudgement>,
}

/// Agents that the kind `acp` knows.
#[non_exhaustive]
#[derive(Clone, Debug, Default)]
pub struct KnownAgentList {
    /// The agents, by name.
    pub agents: Vec<KnownAgentSummary>,
    /// Files of the home that cannot be used. The other agents are not affected.
    pub faults: Vec<AgentFileError>,
}

/// Returns the agents that the kind `acp` knows: those of Nexus, and those of the context's home, which replace others of the same
/// name.
#[must_use]
pub fn agents(context: &BuildContext) -> KnownAgentList {
    let known = vendors().iter().flat_map(Vendor::agents).map(of_known);
    let shipped = known.chain(listed::table().values().map(of_listed));
    let mut agents: BTreeMap<String, KnownAgentSummary> =
        shipped.map(|agent| (agent.name.clone(), agent)).collect();
    for (name, judged) in listed::judgements() {
        if let Some(agent) = agents.get_mut(&name) {
            agent.judged = Some(judged);
        }
    }
    let (files, mut faults) = AgentFiles::in_home(&context.home).read_all();
    for (name, file) in files {
        if let Some(row) = &file.row {
            agents.insert(name.clone(), KnownAgentSummary { is_yours: true, ..of_listed(row) });
        }
        match (agents.get_mut(&name), file.judged) {
            (Some(agent), Some(judged)) => agent.judged = Some(judged),
            // The file has only a judgement, of an agent that this build does not know.
            (None, _) => faults.push(AgentFileError::no_program(&context.home, &name)),
            (Some(_), None) => {}
        }
    }
    KnownAgentList { agents: agents.into_values().collect(), faults }
}

/// Returns the kind with the agents of this build.
#[must_use]
pub fn kind() -> Acp {
    Acp::of(vendors().iter().flat_map(Vendor::agents))
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

fn of_listed(agent: &Arc<ListedAgent>) -> KnownAgentSummary {
    KnownAgentSummary {
        name: agent.name.clone(),
        title: agent.title.clone(),
        wire: agent.wire.clone(),
        takes_credential: agent.takes_credential(),
        login_folders: agent.login_folders.clone(),
        evidence: agent.checked,
        version: agent.version.clone(),
        source: Some(agent.source.clone()).filter(|source| !source.is_empty()),
        has_caller_tools: !agent.lacks_caller_tools,
        hides_caller_tools: agent.hides_caller_tools,
        cannot: agent.cannot.clone(),
        ..of_program(&AgentProgram::Listed(Arc::clone(agent)))
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
        is_yours: false,
        has_caller_tools: true,
        hides_caller_tools: false,
        has_images: program.has_images(),
        resumes: program.is_stored(),
        reports_usage: program.usage() != UsageReport::None,
        cannot: BTreeMap::new(),
        judged: None,
    }
}
