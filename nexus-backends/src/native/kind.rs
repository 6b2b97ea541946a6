//! Parts that all kinds of native backend share: the capabilities of Nexus's own loop, and the construction of a
//! backend.

use std::sync::Arc;

use nexus_core::{
    AccessEnforcer, AccessSupport, BackendId, BuildContext, Capabilities, CostReport, CredentialSource,
    Effort, Enforcement, ErrorKind, ExecutionBackend, ForgetSupport, LimitSupport, LoopMode, OutputSupport,
    SettingsError, Support, TextGranularity, harness::Failure,
};

use super::backend::NativeBackend;
use super::dialect::Dialect;
use super::model_server::ModelServer;
use super::settings::NativeSettings;
use super::transport::Transport;

/// Returns the capabilities of Nexus's own loop at any server. A cost limit can be enforced only if the server reports
/// a cost.
pub(crate) fn capabilities(provider: &str, efforts: &[Effort], cost: CostReport) -> Capabilities {
    let mut capabilities = Capabilities::new(LoopMode::Native);
    capabilities.provider = Some(provider.to_owned());
    capabilities.text = TextGranularity::Deltas;
    capabilities.thinking = Support::Yes;
    capabilities.images = Support::Yes;
    capabilities.system = Support::Yes;
    capabilities.output = OutputSupport::Native;
    capabilities.resume = Support::Yes;
    capabilities.forget = ForgetSupport::InHandle;
    capabilities.caller_tools = Support::Yes;
    capabilities.steering = Support::Yes;
    capabilities.efforts = efforts.to_vec();
    capabilities.harness_tools = Support::Yes;
    capabilities.extra_roots = Support::Yes;
    // At this level the model has only the caller's tools, so it needs no enforcement.
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
    // The loop's own tools check each path, and commands run in the sandbox. Without a sandbox no command is offered.
    capabilities.access.read_only = AccessSupport::Kept(AccessEnforcer::Nexus);
    capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::Nexus);
    capabilities.access.unrestricted = AccessSupport::Kept(AccessEnforcer::None);
    let ours = Enforcement::Ours;
    let of_cost = match cost {
        CostReport::Reported | CostReport::Estimated => ours,
        _ => Enforcement::Unsupported,
    };
    capabilities.limits = LimitSupport::new()
        .with_tool_calls(ours)
        .with_model_calls(ours)
        .with_output_tokens(ours)
        .with_cost(of_cost);
    capabilities.cost = cost;
    capabilities
}

/// Builds a backend. `settings` name the server; requests use `credential`.
pub(crate) fn build(
    id: BackendId,
    dialect: Arc<dyn Dialect>,
    credential: Option<Arc<dyn CredentialSource>>,
    settings: &NativeSettings,
    context: &BuildContext,
) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let transport = Transport::new(settings, context)?;
    Ok(Arc::new(NativeBackend(ModelServer::new(id, dialect, transport, credential, settings, context))))
}

/// Returns the failure of a request without a model, if no default exists for the given `reason`.
pub(crate) fn name_a_model(reason: &str) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, format!("name a model, in the request or as `model`: {reason}"))
}
