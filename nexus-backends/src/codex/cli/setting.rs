//! Properties of a process's turn that its translator needs.

use nexus_core::{AppliedEffort, BackendId, ToolAccess};
use serde_json::Value;

use super::conversation::ConversationStore;
use crate::cli::CallerTools;

/// Reasoning effort of the request, with a warning for the caller.
#[derive(Debug, Default)]
pub(super) struct EffortChoice {
    /// Requested effort.
    pub(super) effort: Option<AppliedEffort>,
    /// Why it is not what the backend's range allows.
    pub(super) warning: Option<String>,
}

/// Properties of a process's turn.
#[derive(Debug)]
pub(super) struct Setting {
    /// The backend, which resume handles name.
    pub(super) backend: BackendId,
    /// Access level, which bounds the possible effects of its calls.
    pub(super) access: ToolAccess,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<CallerTools>,
    /// The settings that take the program's own tools away, if it is to have none.
    pub(super) without_tools: Option<Value>,
    /// Reasoning effort of the request.
    pub(super) effort: EffortChoice,
    /// Keeps the conversation, if it is to be kept.
    pub(super) store: Option<ConversationStore>,
}
