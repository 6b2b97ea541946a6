//! What a request needs that a backend may not have.

use nexus_core::{
    AccessSupport, Capabilities, ConversationMode, Enforcement, OutputSupport, PromptBlock, TurnHost,
    TurnRequest,
};

/// The first need of the request that the backend does not meet, as a phrase after "does not support".
pub(crate) fn unmet(request: &TurnRequest, host: &TurnHost, offered: &Capabilities) -> Option<String> {
    let needs_images = request.prompt.iter().any(|block| matches!(block, PromptBlock::Image { .. }));
    let limits = &request.limits;
    let unkept = |wanted: bool, kept: Enforcement| wanted && kept == Enforcement::Unsupported;
    let simple = [
        (needs_images && !offered.images.is_yes(), "pictures"),
        (request.system.is_some() && !offered.system.is_yes(), "system text"),
        (request.output.is_some() && offered.output == OutputSupport::Unsupported, "an output schema"),
        (
            request.conversation != ConversationMode::Ephemeral && !offered.resume.is_yes(),
            "keeping a conversation",
        ),
        (!host.session().definitions().is_empty() && !offered.caller_tools.is_yes(), "the caller's tools"),
        (!request.extra_roots.is_empty() && !offered.extra_roots.is_yes(), "extra roots"),
        (unkept(limits.tool_calls.is_some(), offered.limits.tool_calls), "a limit of tool calls"),
        (unkept(limits.model_calls.is_some(), offered.limits.model_calls), "a limit of model calls"),
        (unkept(limits.output_tokens.is_some(), offered.limits.output_tokens), "a limit of output tokens"),
        (unkept(limits.cost.is_some(), offered.limits.cost), "a cost limit"),
    ];
    if let Some((_, need)) = simple.iter().find(|(unmet, _)| *unmet) {
        return Some((*need).to_owned());
    }
    let access = request.tool_access;
    (offered.access.of(access) == AccessSupport::Unsupported).then(|| format!("{} access", access.as_str()))
}

#[cfg(test)]
mod tests {
    use nexus_core::{Limits, LoopMode, Sandbox, Support, ToolAccess};

    use super::*;

    fn offered() -> Capabilities {
        let mut offered = Capabilities::new(LoopMode::Native);
        offered.access.scoped_only = AccessSupport::Kept(Sandbox::None);
        offered
    }

    #[test]
    fn a_plain_request_needs_nothing_special() {
        assert_eq!(unmet(&TurnRequest::new("x"), &TurnHost::new(), &offered()), None);
    }

    #[test]
    fn each_need_is_named() {
        let host = TurnHost::new();
        let need = |request: TurnRequest| unmet(&request, &host, &offered());
        let request = || TurnRequest::new("x");
        assert_eq!(need(request().with_system("s")).unwrap(), "system text");
        assert_eq!(
            need(request().with_conversation(ConversationMode::Keep)).unwrap(),
            "keeping a conversation"
        );
        assert_eq!(need(request().with_tool_access(ToolAccess::ReadOnly)).unwrap(), "read-only access");
        let limited = request().with_limits(Limits::new().with_tool_calls(3));
        assert_eq!(need(limited).unwrap(), "a limit of tool calls");

        let mut more = offered();
        more.system = Support::Yes;
        assert_eq!(unmet(&request().with_system("s"), &host, &more), None);
    }
}
