//! Properties of one process's turn that its translator needs.

use nexus_core::{AppliedEffort, BackendId, ToolAccess};
use serde_json::Value;

use super::conversation::ConversationStore;
use crate::cli::CallerTools;

/// Reasoning effort of the request, with a warning for the caller.
#[derive(Debug, Default)]
pub(super) struct EffortChoice {
    /// Requested effort.
    pub(super) effort: Option<AppliedEffort>,
    /// Reason why the effort differs from the requested one, if it does.
    pub(super) warning: Option<String>,
}

/// Properties of a process's turn.
#[derive(Debug)]
pub(super) struct Setting {
    /// Backend that resume handles name.
    pub(super) backend: BackendId,
    /// Access level, which bounds the possible effects of its calls.
    pub(super) access: ToolAccess,
    /// The caller's tools, if there are any.
    pub(super) tools: Option<CallerTools>,
    /// Settings that remove the program's own tools, if the turn must not have them.
    pub(super) without_tools: Option<Value>,
    /// Reasoning effort of the request.
    pub(super) effort: EffortChoice,
    /// Store for the conversation, if it must be stored.
    pub(super) store: Option<ConversationStore>,
}
