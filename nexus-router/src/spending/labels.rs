//! Labels of a request that name the work which a turn belongs to.

use std::collections::BTreeMap;

/// Part of the work that a turn belongs to. [`Router::labelled`](crate::Router::labelled) sets it for all turns of a router.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkLabel {
    /// Type of the agent, for a turn of a seat. A seat has no type of its own.
    Type,
    /// Id of the task.
    Task,
    /// Id of the debate.
    Debate,
    /// Name of the agent of the broker.
    Agent,
    /// Id of the trigger that started the turn.
    Trigger,
    /// Name of the conversation.
    Conversation,
}

impl WorkLabel {
    /// Returns the name of the label in [`TurnRequest::labels`](nexus_core::TurnRequest::labels).
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Type => "nexus.type",
            Self::Task => "nexus.task",
            Self::Debate => "nexus.debate",
            Self::Agent => "nexus.agent",
            Self::Trigger => "nexus.trigger",
            Self::Conversation => "nexus.conversation",
        }
    }

    /// Returns the value of the label.
    pub(super) fn of(self, labels: &BTreeMap<String, String>) -> Option<String> {
        labels.get(self.as_str()).filter(|value| !value.is_empty()).cloned()
    }
}
