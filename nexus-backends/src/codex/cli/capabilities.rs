//! The program's capabilities, and the part that enforces each access level.

use nexus_core::{
    AccessEnforcer, AccessSupport, Capabilities, Effort, Enforcement, ForgetSupport, LimitSupport, LoopMode,
    OutputSupport, Support, TextGranularity,
};

/// Effort levels that at least one listed model supports. Source: `codex debug models --bundled` of 0.169.0, whose
/// `ultra` has no counterpart in [`Effort`].
const EFFORTS: [Effort; 5] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh, Effort::Max];

/// Capabilities of every backend of this kind.
pub(super) fn capabilities() -> Capabilities {
    let mut capabilities = Capabilities::new(LoopMode::Delegated);
    capabilities.provider = Some("openai".to_owned());
    capabilities.text = TextGranularity::Deltas;
    capabilities.thinking = Support::Yes;
    capabilities.images = Support::Yes;
    capabilities.system = Support::Yes;
    capabilities.output = OutputSupport::Native;
    capabilities.resume = Support::Yes;
    capabilities.forget = ForgetSupport::Deletes;
    capabilities.caller_tools = Support::Yes;
    capabilities.harness_tools = Support::Yes;
    capabilities.extra_roots = Support::Yes;
    capabilities.steering = Support::Yes;
    capabilities.efforts = EFFORTS.to_vec();
    // The program offers none of its own tools to the model, and also rejects calls of them.
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::Vendor);
    capabilities.access.read_only = AccessSupport::Kept(AccessEnforcer::Os);
    capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::Os);
    capabilities.access.unrestricted = AccessSupport::Kept(AccessEnforcer::None);
    // The program reports no cost, so a limit on it cannot be enforced.
    let (ours, nobody) = (Enforcement::Ours, Enforcement::Unsupported);
    capabilities.limits = LimitSupport::new()
        .with_tool_calls(ours)
        .with_model_calls(ours)
        .with_output_tokens(ours)
        .with_cost(nobody);
    capabilities
}
