//! Whether the conversation of a turn is kept, and how a later turn resumes it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::BackendId;

/// Whether the conversation is kept.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "mode", try_from = "WrittenMode")]
pub enum ConversationMode {
    /// Nothing is kept after the turn.
    #[default]
    Ephemeral,
    /// The conversation is kept; the result carries the handle to go on with.
    Keep,
    /// Goes on from an earlier turn, and keeps the conversation.
    Resume {
        /// What the earlier turn's result carried.
        handle: ResumeHandle,
        /// What to do if the conversation is not there any more.
        on_lost: OnLost,
    },
}

/// The keys of a mode as it is stored. An enum with a tag would take unknown keys beside a variant without any.
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
    /// Goes on from an earlier turn; a lost conversation is an error.
    pub fn resume(handle: ResumeHandle) -> Self {
        Self::Resume { handle, on_lost: OnLost::Fail }
    }

    /// The handle of the turn this one goes on from.
    pub fn handle(&self) -> Option<&ResumeHandle> {
        match self {
            Self::Resume { handle, .. } => Some(handle),
            _ => None,
        }
    }
}

/// What to do when the conversation to resume is not there any more.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLost {
    /// End the turn with [`ErrorKind::ConversationLost`](crate::ErrorKind::ConversationLost).
    #[default]
    Fail,
    /// Start afresh, with a warning event.
    Fresh,
}

/// Where a conversation can be taken up again. Only the backend that made it can use it.
///
/// It is plain data: it may be stored and used by another process on the same machine.
///
/// A handle may be used more than once. One that holds its conversation ([`ForgetSupport::InHandle`](crate::ForgetSupport::InHandle))
/// always resumes it behind its own turn, so that using an older handle forks the conversation. Any other handle names the one
/// conversation that its backend stores, and resumes it behind the last turn: the model is shown the turns after the handle's, too. For a
/// fork on any backend, use the crate `nexus-conversations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResumeHandle {
    backend: BackendId,
    state: Value,
}

impl ResumeHandle {
    /// For backends: `state` is whatever the backend needs to find the conversation. It must hold no secret.
    pub fn new(backend: BackendId, state: Value) -> Self {
        Self { backend, state }
    }

    /// The backend that made the handle.
    pub fn backend(&self) -> &BackendId {
        &self.backend
    }

    /// What the backend put in.
    pub fn state(&self) -> &Value {
        &self.state
    }
}
