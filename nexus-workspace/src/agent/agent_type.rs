//! One type of agent.

/// One type of agent: what it is called, at which tier it works, and in which phase.
///
/// Its names are checked when it is registered: see [`AgentTypes::with_type`](super::AgentTypes::with_type).
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentType {
    /// The name of the type.
    pub name: String,
    /// The level at which it works.
    pub tier: String,
    /// The step of the work that it does.
    pub phase: String,
}

impl AgentType {
    /// The type `name`, which works at `tier` in `phase`.
    pub fn new(name: impl Into<String>, tier: impl Into<String>, phase: impl Into<String>) -> Self {
        Self { name: name.into(), tier: tier.into(), phase: phase.into() }
    }
}
