//! Parts of a conversation that do not reach a model.

use std::{collections::BTreeSet, fmt};

use nexus_core::BackendId;
use serde::{Deserialize, Serialize};

/// Parts of a conversation that are not stored, or not shown to the model that continues it.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotCarried {
    /// Number of messages that were left out, oldest first.
    #[serde(skip_serializing_if = "is_zero")]
    pub older_messages: u64,
    /// Size of the omitted parts of texts, in bytes.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// Number of pictures.
    #[serde(skip_serializing_if = "is_zero")]
    pub pictures: u64,
    /// Size of the thinking that the model showed, in bytes. Thinking is never stored.
    #[serde(skip_serializing_if = "is_zero")]
    pub thinking_bytes: u64,
    /// Number of messages and tool calls of sub-agents. Their result is the answer of the call that started them.
    #[serde(skip_serializing_if = "is_zero")]
    pub of_sub_agents: u64,
    /// Number of tool calls of reverted attempts.
    #[serde(skip_serializing_if = "is_zero")]
    pub undone_calls: u64,
    /// Backends whose own state is missing: data outside of the messages, such as reasoning that only the backend can read.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub state_of: BTreeSet<BackendId>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl NotCarried {
    /// Returns true if nothing is missing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let Self {
            older_messages,
            cut_bytes,
            pictures,
            thinking_bytes,
            of_sub_agents,
            undone_calls,
            state_of,
        } = other;
        self.older_messages = self.older_messages.saturating_add(*older_messages);
        self.cut_bytes = self.cut_bytes.saturating_add(*cut_bytes);
        self.pictures = self.pictures.saturating_add(*pictures);
        self.thinking_bytes = self.thinking_bytes.saturating_add(*thinking_bytes);
        self.of_sub_agents = self.of_sub_agents.saturating_add(*of_sub_agents);
        self.undone_calls = self.undone_calls.saturating_add(*undone_calls);
        self.state_of.extend(state_of.iter().cloned());
    }
}

/// Writes a list such as `2 pictures, 300 bytes of thinking`.
impl fmt::Display for NotCarried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.older_messages, "older messages"),
            (self.cut_bytes, "bytes of long texts"),
            (self.pictures, "pictures"),
            (self.thinking_bytes, "bytes of thinking"),
            (self.of_sub_agents, "messages and calls of sub-agents"),
            (self.undone_calls, "calls that were undone"),
        ];
        let counted = counts.iter().filter(|(count, _)| *count > 0);
        let mut words: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        words.extend(self.state_of.iter().map(|backend| {
            format!(
                "the state that {backend} stores beside the \
            messages"
            )
        }));
        match words.is_empty() {
            true => f.write_str("nothing"),
            false => f.write_str(&words.join(", ")),
        }
    }
}
