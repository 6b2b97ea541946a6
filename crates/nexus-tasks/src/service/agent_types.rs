//! The calls on the tiers and types of agents of the home.

use nexus_core::harness::try_blocking;
use nexus_mcp::page::{MOST_BYTES, cut, page};
use nexus_work::{AgentType, AgentTypeError, AgentTypes, agent::AgentTypeRegistry};

use super::{
    answer::{AgentList, AgentView, TierList, TierView},
    request::{
        AgentListRequest, AgentRegisterRequest, AgentRemoveRequest, TierListRequest, TierRegisterRequest,
    },
    tasks::Tasks,
};
use crate::{
    agent::AgentPhase,
    task_error::{TaskError, TaskErrorKind},
};

impl Tasks {
    /// Registers a tier.
    pub async fn tier_register(&self, request: TierRegisterRequest) -> Result<TierView, TaskError> {
        let TierRegisterRequest { name, like, surface } = request;
        let tier = name.clone();
        let types = self
            .change_types(move |types| types.with_tier(&tier, &like, surface).map_err(type_refused))
            .await?;
        Ok(tier_view(&name, &types))
    }

    /// Lists the tiers.
    pub async fn tier_list(&self, request: TierListRequest) -> Result<TierList, TaskError> {
        let types = self.types().await?;
        let views = types.tiers().map(|tier| tier_view(tier, &types));
        let (tiers, next_offset) = page(views, request.offset, MOST_BYTES - 200);
        Ok(TierList { tiers, next_offset })
    }

    /// Registers a type of agent, or replaces a registered type of the same name.
    pub async fn agent_register(&self, request: AgentRegisterRequest) -> Result<AgentView, TaskError> {
        let agent = AgentType::from(request);
        let name = agent.name.clone();
        let types =
            self.change_types(move |types| types.with_custom_type(agent).map_err(type_refused)).await?;
        let agent = types.find(&name).map_err(type_refused)?;
        Ok(agent_view(agent, &types, usize::MAX))
    }

    /// Lists the types of agents.
    pub async fn agent_list(&self, request: AgentListRequest) -> Result<AgentList, TaskError> {
        Ok(agent_list(&self.types().await?, request.offset))
    }

    /// Removes a registered type of agent.
    pub async fn agent_remove(&self, request: AgentRemoveRequest) -> Result<AgentList, TaskError> {
        let types =
            self.change_types(move |types| types.without_type(&request.name).map_err(type_refused)).await?;
        Ok(agent_list(&types, 0))
    }

    async fn types(&self) -> Result<AgentTypes, TaskError> {
        let registry = self.registry();
        try_blocking(move || registry.read()).await
    }

    async fn change_types(
        &self,
        change: impl FnOnce(AgentTypes) -> Result<AgentTypes, TaskError> + Send + 'static,
    ) -> Result<AgentTypes, TaskError> {
        let registry = self.registry();
        try_blocking(move || registry.change(change)).await
    }

    fn registry(&self) -> AgentTypeRegistry {
        AgentTypeRegistry::in_home(&self.0.home)
    }
}

/// Returns a page of the types.
fn agent_list(types: &AgentTypes, offset: u64) -> AgentList {
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
    AgentView {
        name: agent.name.clone(),
        tier: agent.tier.clone(),
        phase: agent.phase.clone(),
        description: cut(&agent.description, most),
        topics: agent.topics.iter().cloned().collect(),
        tools: tools.into_iter().map(str::to_owned).collect(),
        has_prompt: agent.prompt.is_some(),
        is_built_in: AgentTypes::is_built_in(&agent.name),
    }
}

/// Returns the refusal of an agent type or tier as an error of the service.
#[expect(clippy::needless_pass_by_value, reason = "it is given to `map_err`")]
fn type_refused(error: AgentTypeError) -> TaskError {
    let (kind, advice) = match &error {
        AgentTypeError::ShadowsBuiltIn { .. }
        | AgentTypeError::AlreadyThere { .. }
        | AgentTypeError::Reserved { .. } => (TaskErrorKind::NameTaken, "take another name"),
        AgentTypeError::Unknown { .. } => {
            (TaskErrorKind::InvalidArgument, "call agent_list or tier_list to find the name")
        }
        _ => (TaskErrorKind::InvalidArgument, "correct the argument, then make the call again"),
    };
    TaskError::new(kind, error.to_string(), advice)
}
