//! The tiers and types of agents that callers registered: one file of the home.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use nexus_files::FileLock;
use nexus_mcp::page::{MOST_BYTES, cut, page};
use nexus_work::{AgentType, AgentTypeError, AgentTypes, agent::Surface};

use super::{
    answer::{AgentList, AgentView, TierList, TierView},
    request::{AgentRegisterRequest, TierRegisterRequest},
};
use crate::{
    agent::AgentPhase,
    task_error::{TaskError, TaskErrorKind},
};

/// The file in a home.
const FILE: &str = "agent-types.json";
/// The largest such file, in bytes.
const MOST_FILE_BYTES: u64 = 16 << 20;
/// How long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What callers registered in a home.
#[derive(Clone, Debug)]
pub(super) struct TypeFile {
    path: PathBuf,
}

impl TypeFile {
    pub(super) fn in_home(home: &Path) -> Self {
        Self { path: home.join(FILE) }
    }

    /// What is built in, and what was registered.
    pub(super) fn read(&self) -> Result<AgentTypes, TaskError> {
        let bytes =
            nexus_files::read_bounded(&self.path, MOST_FILE_BYTES).map_err(TaskError::at(&self.path))?;
        let Some(bytes) = bytes else { return Ok(AgentTypes::built_in()) };
        serde_json::from_slice(&bytes).map_err(|error| {
            let mut error = TaskError::damaged(&self.path, error);
            "mend the file, or move it away: then only the built-in types are there"
                .clone_into(&mut error.advice);
            error
        })
    }

    /// Changes what was registered, while no other process does.
    fn change(
        &self,
        change: impl FnOnce(AgentTypes) -> Result<AgentTypes, TaskError>,
    ) -> Result<AgentTypes, TaskError> {
        let lock = self.path.with_extension("lock");
        if let Some(folder) = self.path.parent() {
            nexus_files::make_private_folder(folder).map_err(TaskError::at(folder))?;
        }
        let locked = FileLock::lock(&lock, PATIENCE).map_err(TaskError::at(&lock))?;
        let Some(_locked) = locked else {
            let message = format!("another process holds {lock:?}");
            return Err(TaskError::new(TaskErrorKind::InUse, message, "make the same call again"));
        };
        let types = change(self.read()?)?;
        let bytes =
            serde_json::to_vec_pretty(&types).map_err(|error| TaskError::damaged(&self.path, error))?;
        nexus_files::replace(&self.path, &bytes).map_err(TaskError::at(&self.path))?;
        Ok(types)
    }

    pub(super) fn register_tier(&self, request: TierRegisterRequest) -> Result<TierView, TaskError> {
        let TierRegisterRequest { name, like, surface } = request;
        let surface = surface.map_or_else(Surface::all, Surface::only);
        let types = self.change(|types| types.with_tier(&name, &like, surface).map_err(type_refused))?;
        Ok(tier_view(&name, &types))
    }

    pub(super) fn register_agent(&self, request: AgentRegisterRequest) -> Result<AgentView, TaskError> {
        let AgentRegisterRequest { name, tier, phase, description, topics, prompt, surface } = request;
        let surface = surface.map_or_else(Surface::all, Surface::only);
        let mut agent =
            AgentType::new(&*name, tier, phase).with_description(description).with_surface(surface);
        agent.topics.extend(topics);
        agent.prompt = prompt;
        let types = self.change(|types| {
            let is_known = types.types().any(|known| known.name == name);
            let changed = if is_known { types.with_replaced_type(agent) } else { types.with_type(agent) };
            changed.map_err(type_refused)
        })?;
        let agent = types.find(&name).map_err(type_refused)?;
        Ok(agent_view(agent, &types, usize::MAX))
    }

    pub(super) fn remove_agent(&self, name: &str) -> Result<AgentList, TaskError> {
        let types = self.change(|types| types.without_type(name).map_err(type_refused))?;
        Ok(agent_list(&types, 0))
    }
}

/// A page of the tiers.
pub(super) fn tier_list(types: &AgentTypes, offset: u64) -> TierList {
    let views = types.tiers().map(|tier| tier_view(tier, types));
    let (tiers, next_offset) = page(views, offset, MOST_BYTES - 200);
    TierList { tiers, next_offset }
}

/// A page of the types.
pub(super) fn agent_list(types: &AgentTypes, offset: u64) -> AgentList {
    let views = types.types().map(|agent| agent_view(agent, types, 1_000));
    let (agents, next_offset) = page(views, offset, MOST_BYTES - 200);
    AgentList { agents, next_offset }
}

fn tier_view(name: &str, types: &AgentTypes) -> TierView {
    let like = types.built_in_tier(name).unwrap_or(name).to_owned();
    TierView { name: name.to_owned(), is_built_in: like == name, like }
}

fn agent_view(agent: &AgentType, types: &AgentTypes, most: usize) -> AgentView {
    let tools = AgentPhase::tools_of(&agent.name, types).unwrap_or_default();
    let built_in = AgentTypes::built_in();
    AgentView {
        name: agent.name.clone(),
        tier: agent.tier.clone(),
        phase: agent.phase.clone(),
        description: cut(&agent.description, most),
        topics: agent.topics.iter().cloned().collect(),
        tools: tools.into_iter().map(str::to_owned).collect(),
        has_prompt: agent.prompt.is_some(),
        is_built_in: built_in.types().any(|known| known.name == agent.name),
    }
}

/// Returns the refusal of an agent type or tier as an error of the service.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
pub(super) fn type_refused(error: AgentTypeError) -> TaskError {
    let (kind, advice) = match &error {
        AgentTypeError::ShadowsBuiltIn { .. }
        | AgentTypeError::AlreadyThere { .. }
        | AgentTypeError::Reserved { .. } => (TaskErrorKind::NameTaken, "take another name"),
        AgentTypeError::Unknown { .. } => {
            (TaskErrorKind::InvalidArgument, "call agent_list or tier_list, which have all names")
        }
        _ => (TaskErrorKind::InvalidArgument, "mend the argument, then call again"),
    };
    TaskError::new(kind, error.to_string(), advice)
}
