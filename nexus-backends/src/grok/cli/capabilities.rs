//! Capabilities of `grok-cli`.

use nexus_core::{
    AccessEnforcer, AccessSupport, Capabilities, CostReport, Effort, Enforcement, ForgetSupport,
    LimitSupport, LoopMode, ModelId, OutputSupport, Support, TextGranularity,
};

/// Effort levels of the vendor. Source: observed with grok 1.0.41.
const EFFORTS: [Effort; 4] = [Effort::Low, Effort::Medium, Effort::High, Effort::XHigh];

/// Models with fewer effort levels. Source: the model list built into grok 1.0.41.
const FEWER_EFFORTS: [(&str, &[Effort]); 1] = [("grok-4.5", &[Effort::Low, Effort::Medium, Effort::High])];

/// Returns the capabilities on a machine with or without bubblewrap.
pub(super) fn capabilities(has_bubblewrap: bool) -> Capabilities {
    let mut all = Capabilities::new(LoopMode::Delegated);
    all.provider = Some("x_ai".to_owned());
    all.text = TextGranularity::Deltas;
    all.thinking = Support::Yes;
    all.images = Support::Yes;
    all.system = Support::Yes;
    all.output = OutputSupport::Instructed;
    all.resume = Support::Yes;
    all.forget = ForgetSupport::Deletes;
    all.harness_tools = Support::Yes;
    all.caller_tools = Support::Yes;
    all.efforts = EFFORTS.to_vec();
    all.access.scoped_only = AccessSupport::Kept(AccessEnforcer::Vendor);
    all.access.read_only = AccessSupport::Kept(AccessEnforcer::Vendor);
    if has_bubblewrap {
        // Extra roots need the folder sandbox, which only the level `WorkspaceWrite` uses, through bubblewrap.
        all.extra_roots = Support::Yes;
        all.access.workspace_write = AccessSupport::Kept(AccessEnforcer::Os);
    }
    all.access.unrestricted = AccessSupport::Kept(AccessEnforcer::None);
    // The CLI reports the cost of a turn only at its end, so a limit cannot be enforced.
    all.limits = LimitSupport::new()
        .with_tool_calls(Enforcement::Ours)
        .with_model_calls(Enforcement::Vendor)
        .with_output_tokens(Enforcement::Ours)
        .with_cost(Enforcement::Unsupported);
    all.cost = CostReport::Reported;
    all
}

/// Returns the effort that `model` supports.
pub(super) fn effort_for(model: Option<&ModelId>, effort: Effort) -> Effort {
    let offered = FEWER_EFFORTS.iter().find(|(name, _)| model.is_some_and(|model| model.as_str() == *name));
    offered.and_then(|(_, offered)| effort.clamp_to(offered)).map_or(effort, |applied| applied.applied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_with_a_shorter_menu_gets_what_it_takes() {
        assert_eq!(effort_for(Some(&"grok-4.5".into()), Effort::XHigh), Effort::High);
        assert_eq!(effort_for(Some(&"grok-4.6".into()), Effort::XHigh), Effort::XHigh);
        assert_eq!(effort_for(None, Effort::Low), Effort::Low);
    }

    #[test]
    fn without_bubblewrap_nothing_writes_in_the_workspace() {
        assert_eq!(capabilities(false).access.workspace_write, AccessSupport::Unsupported);
        assert_eq!(capabilities(true).access.workspace_write, AccessSupport::Kept(AccessEnforcer::Os));
    }
}
