//! The catalogue of roles.

use std::collections::BTreeSet;

use nexus_work::{
    AgentType, AgentTypes,
    agent::{CHANGING_TOOLS, CHECKING_TOOLS, READING_TOOLS, Surface},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Capability, HarnessMap, RoleTools};

/// A role: a kind of work in a project, and its restrictions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Role {
    /// Name of the role.
    pub name: &'static str,
    /// Kind of the role's work.
    pub category: Category,
    /// Rule for resuming its agents.
    pub resume_tier: ResumeTier,
    /// Kind of model that it needs.
    pub model_tier: ModelTier,
    /// Restrictions of the role.
    pub capabilities: BTreeSet<Capability>,
    /// Purpose of the role: one sentence.
    pub description: &'static str,
    /// Prompt of the role, which names no program and no tool.
    pub body: &'static str,
}

/// Kind of work of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Plans how the work is to be done.
    How,
    /// Does the work.
    Do,
    /// Checks work that was done.
    Check,
}

/// Rule for resuming the agents of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResumeTier {
    /// One agent works through a whole cycle.
    Persistent,
    /// An agent is resumed for the same files, while no other agent changes them.
    Bounded,
    /// Each task has an agent of its own.
    Ephemeral,
}

/// Kind of model that a role needs: a portable name in `models` of `nexus.yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelTier {
    /// The best that there is.
    High,
    /// A good model at lower cost.
    Standard,
}

use Capability::{NoFileEdit, NoTaskCreate, NoTaskUpdate};

const ADVISES: &[Capability] = &[NoFileEdit, NoTaskCreate, NoTaskUpdate];
const READS: &[Capability] = &[NoFileEdit, NoTaskCreate];

/// Row of the catalogue.
type CatalogRow =
    (&'static str, Category, ResumeTier, ModelTier, &'static [Capability], &'static str, &'static str);

#[rustfmt::skip]
const CATALOG: [CatalogRow; 9] = [
    ("architect", Category::How, ResumeTier::Persistent, ModelTier::High, ADVISES,
     "Decides on the structure, and on the later cost of a change.", include_str!("../../roles/architect.md")),
    ("designer", Category::How, ResumeTier::Persistent, ModelTier::High, ADVISES,
     "Decides on the screens, actions and words for the users.", include_str!("../../roles/designer.md")),
    ("postdoc", Category::How, ResumeTier::Persistent, ModelTier::High, ADVISES,
     "Decides on methods of research, and on the weight of evidence.", include_str!("../../roles/postdoc.md")),
    ("strategist", Category::How, ResumeTier::Persistent, ModelTier::High, ADVISES,
     "Decides on goals, their users and their order.", include_str!("../../roles/strategist.md")),
    ("engineer", Category::Do, ResumeTier::Bounded, ModelTier::Standard, &[NoTaskCreate],
     "Writes and changes code, with its tests.", include_str!("../../roles/engineer.md")),
    ("writer", Category::Do, ResumeTier::Bounded, ModelTier::Standard, &[NoTaskCreate],
     "Writes and edits texts for people.", include_str!("../../roles/writer.md")),
    ("researcher", Category::Do, ResumeTier::Persistent, ModelTier::Standard, READS,
     "Finds known facts and their sources.", include_str!("../../roles/researcher.md")),
    ("tester", Category::Check, ResumeTier::Ephemeral, ModelTier::Standard, READS,
     "Tests the result, and reports its faults.", include_str!("../../roles/tester.md")),
    ("reviewer", Category::Check, ResumeTier::Ephemeral, ModelTier::Standard, READS,
     "Compares the work with the request.", include_str!("../../roles/reviewer.md")),
];

impl Role {
    /// Returns all roles.
    pub fn catalog() -> impl Iterator<Item = Self> {
        CATALOG.into_iter().map(
            |(name, category, resume_tier, model_tier, capabilities, description, body)| Self {
                name,
                category,
                resume_tier,
                model_tier,
                capabilities: capabilities.iter().copied().collect(),
                description,
                body,
            },
        )
    }

    /// Returns the types that a home registers for the roles. `reviewer` is missing, because it is built in.
    pub fn custom_types() -> impl Iterator<Item = AgentType> {
        Self::catalog().map(|role| role.agent_type()).filter(|known| !AgentTypes::is_built_in(&known.name))
    }

    /// Returns the role of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::catalog().find(|role| role.name == name)
    }

    /// Returns the type of agent for this role in tasks. `reviewer` is the built-in type of that name.
    ///
    /// A role that changes files has the phase `implement` at the tier `execution`. Every other role reads and submits
    /// findings, at the tier `operations`. The type lacks the tools that the role's restrictions remove.
    pub fn agent_type(&self) -> AgentType {
        let (tier, phase) = match (self.name, self.capabilities.contains(&NoFileEdit)) {
            ("reviewer", _) => ("operations", "review"),
            (_, true) => ("operations", "survey"),
            (_, false) => ("execution", "implement"),
        };
        let tools = READING_TOOLS.into_iter().chain(CHANGING_TOOLS).chain(CHECKING_TOOLS);
        let left = RoleTools::of(&self.capabilities, &[], &HarnessMap::of_nexus()).left(tools);
        let patterns = left.into_iter().filter_map(|tool| tool.parse().ok());
        AgentType::new(self.name, tier, phase)
            .with_description(self.description)
            .with_prompt(self.body)
            .with_surface(Surface::only(patterns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_a_type_that_tasks_know() {
        let types =
            Role::custom_types().fold(AgentTypes::built_in(), |types, role| types.with_type(role).unwrap());
        for role in Role::catalog() {
            let offered = types.tools_of(role.name, ["read_file", "write_file", "delete_file"]).unwrap();
            assert_eq!(
                offered.contains(&"write_file"),
                matches!(role.name, "engineer" | "writer") || role.name == "reviewer",
                "{}",
                role.name
            );
        }
    }

    #[test]
    fn bodies_name_no_tool_and_no_program() {
        for role in Role::catalog() {
            assert!(role.body.len() > 400 && role.body.len() < 4_000, "{}", role.name);
            for word in ["task_", "plan_", "Claude", "Codex", "Grok", "MCP", "write_file"] {
                assert!(!role.body.contains(word), "{}: {word}", role.name);
            }
        }
    }
}
