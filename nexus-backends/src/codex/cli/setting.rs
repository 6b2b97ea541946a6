//! What one process of the program belongs to: the turn as its translator needs it.

use nexus_core::{AppliedEffort, BackendId, ToolAccess};
use serde_json::Value;

use super::conversation::ConversationStore;
use crate::cli::CallerTools;

/// How hard the model is asked to think, and what the caller should know about it.
#[derive(Debug, Default)]
pub(super) struct EffortChoice {
    /// What is asked for.
    pub(super) effort: Option<AppliedEffort>,
    /// Why it is not what the backend's range allows.
    pub(super) warning: Option<String>,
}

/// What a process belongs to.
#[derive(Debug)]
pub(super) struct Setting {
    /// The backend, which resume handles name.
    pub(super) backend: BackendId,
    /// What the agent may do, which says what its calls may have changed.
    pub(super) access: ToolAccess,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<CallerTools>,
    /// The settings that take the program's own tools away, if it is to have none.
    pub(super) without_tools: Option<Value>,
    /// How hard the model is asked to think.
    pub(super) effort: EffortChoice,
    /// Keeps the conversation, if it is to be kept.
    pub(super) store: Option<ConversationStore>,
}
