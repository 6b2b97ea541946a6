//! What the kinds of native backend share: what a loop of our own can do, and how a backend is put together.

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

/// What a loop of our own can do at any server. Whether a cost is told depends on the server, and with it
/// whether a limit on it can be kept.
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
    // There is no tool but the caller's, and so nothing to keep in; the other levels open tools of a harness.
    capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
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

/// Puts a backend together. `settings` name the server; `credential` is what its requests bear.
pub(crate) fn build(
    id: BackendId,
    dialect: Arc<dyn Dialect>,
    credential: Option<Arc<dyn CredentialSource>>,
    settings: &NativeSettings,
    context: &BuildContext,
) -> Result<Arc<dyn ExecutionBackend>, SettingsError> {
    let transport = Transport::new(settings, context)?;
    Ok(Arc::new(NativeBackend(ModelServer::new(id, dialect, transport, credential, settings))))
}

/// The failure of a request that names no model where nothing else does; `reason` says why there is no default.
pub(crate) fn name_a_model(reason: &str) -> Failure {
    Failure::new(ErrorKind::InvalidRequest, format!("name a model, in the request or as `model`: {reason}"))
}
