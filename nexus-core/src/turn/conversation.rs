//! Modes of a conversation: forget it, store it, or resume an earlier one.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{id::BackendId, item::ItemList, redact::Redactor};

/// Mode of a turn's conversation.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode", try_from = "WrittenMode")]
pub enum ConversationMode {
    /// Nothing of the conversation is stored after the turn.
    #[default]
    Ephemeral,
    /// The conversation is stored, and the result contains its resume handle.
    Keep,
    /// Resumes the conversation of an earlier turn, and stores it.
    Resume {
        /// Handle from the earlier turn's result.
        handle: ResumeHandle,
        /// Reaction to a conversation that no longer exists.
        on_lost: OnLost,
    },
}

/// Stored form of a mode. An enum with a tag would accept unknown keys in a variant without fields.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenMode {
    mode: ModeName,
    handle: Option<ResumeHandle>,
    on_lost: Option<OnLost>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ModeName {
    Ephemeral,
    Keep,
    Resume,
}

impl TryFrom<WrittenMode> for ConversationMode {
    type Error = &'static str;

    fn try_from(written: WrittenMode) -> Result<Self, Self::Error> {
        match (written.mode, written.handle, written.on_lost) {
            (ModeName::Ephemeral, None, None) => Ok(Self::Ephemeral),
            (ModeName::Keep, None, None) => Ok(Self::Keep),
            (ModeName::Resume, Some(handle), Some(on_lost)) => Ok(Self::Resume { handle, on_lost }),
            (ModeName::Resume, ..) => Err("the mode `resume` needs `handle` and `on_lost`"),
            _ => Err("`handle` and `on_lost` belong to the mode `resume`"),
        }
    }
}

impl ConversationMode {
    /// Resumes an earlier turn. A lost conversation is an error.
    pub fn resume(handle: ResumeHandle) -> Self {
        Self::Resume { handle, on_lost: OnLost::Fail }
    }

    /// Returns the handle of the conversation to resume.
    pub fn handle(&self) -> Option<&ResumeHandle> {
        match self {
            Self::Resume { handle, .. } => Some(handle),
            _ => None,
        }
    }
}

/// Reaction to a conversation that no longer exists.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// End the turn with [`ErrorKind::ConversationLost`](crate::ErrorKind::ConversationLost).
    #[default]
    Fail,
    /// Start a new conversation, with a warning event.
    Fresh,
}

/// A handle for resuming a conversation. Only the backend that created it can use it.
///
/// A handle is plain data. It may be stored, and used by another process on the same machine.
///
/// A handle may be used more than once. A handle that contains its conversation
/// ([`ForgetSupport::InHandle`](crate::ForgetSupport::InHandle)) always resumes it after its own turn, so that
/// using an older handle forks the conversation. Any other handle names the one conversation that its backend
/// stores, and resumes it after the last turn: the model also sees the turns after the handle's own. For a fork
/// on any backend, use the crate `nexus-conversations`.
///
/// A backend that owns its loop stores the conversation as [items](crate::item) in the handle. Handles of successive turns
/// share them, so a handle is cheap to clone at any length.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeHandle {
    backend: BackendId,
    state: Value,
    #[serde(default, skip_serializing_if = "ItemList::is_empty")]
    items: ItemList,
}

impl ResumeHandle {
    /// Creates a handle, for backends. `state` contains all data that the backend needs to find the
    /// conversation. It must contain no secret.
    pub fn new(backend: BackendId, state: Value) -> Self {
        Self { backend, state, items: ItemList::default() }
    }

    /// Adds the items of a conversation that is stored in the handle itself.
    #[must_use]
    pub fn with_items(mut self, items: ItemList) -> Self {
        self.items = items;
        self
    }

    /// Returns the handle as one of another backend, for backends that wrap or continue the conversations of others.
    #[must_use]
    pub fn of_backend(mut self, backend: BackendId) -> Self {
        self.backend = backend;
        self
    }

    /// Returns the backend that created the handle.
    pub fn backend(&self) -> &BackendId {
        &self.backend
    }

    /// Returns the backend's data.
    pub fn state(&self) -> &Value {
        &self.state
    }

    /// Returns the items of the conversation. Empty if the backend stores the conversation elsewhere.
    pub fn items(&self) -> &ItemList {
        &self.items
    }

    /// Returns the handle without the secrets that `redactor` knows; `None` if it contains none. The first `known` items
    /// are not searched: the caller knows that they contain none.
    #[must_use]
    pub fn without_secrets(&self, known: usize, redactor: &Redactor) -> Option<Self> {
        let state = redactor.value_without_secrets(&self.state);
        let items = self.items.without_secrets_from(known, redactor);
        if state.is_none() && items.is_none() {
            return None;
        }
        Some(Self {
            backend: self.backend.clone(),
            state: state.unwrap_or_else(|| self.state.clone()),
            items: items.unwrap_or_else(|| self.items.clone()),
        })
    }
}
