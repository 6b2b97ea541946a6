//! The reference backend.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, Capabilities, CostReport, CredentialSource,
    Effort, Enforcement, EventSink, ExecutionBackend, ForgetError, ForgetSupport, Forgotten, LimitSupport,
    LoopMode, OutputSupport, ResumeHandle, Secret, Support, TextGranularity, TurnError, TurnHost,
    TurnRequest, TurnResult,
    harness::{Renewal, RunningTurn},
};

use super::{session, turn::Turn};
use crate::conformance::{ScriptedModel, TOKEN_VARIABLE};

/// A backend that fulfils every promise of the seam.
#[derive(Debug)]
pub struct ReferenceBackend {
    pub(super) id: BackendId,
    pub(super) model: Arc<ScriptedModel>,
    pub(super) home: PathBuf,
    pub(super) environment: BTreeMap<String, String>,
    harness: Support,
    pub(super) credential: Option<Arc<dyn CredentialSource>>,
}

impl ReferenceBackend {
    /// Creates a backend that calls `model`, stores conversations in `home`, and gives tools the named variables of
    /// `environment`.
    pub fn new(model: Arc<ScriptedModel>, home: PathBuf, environment: BTreeMap<String, String>) -> Self {
        Self { id: "reference".into(), model, home, environment, harness: Support::Yes, credential: None }
    }

    /// Sends a credential of `source` with every call.
    #[must_use]
    pub fn with_credential(mut self, source: Arc<dyn CredentialSource>) -> Self {
        self.credential = Some(source);
        self
    }

    /// Removes the backend's own tools, and with them the sandbox: it offers only the caller's tools.
    #[must_use]
    pub fn without_harness(mut self) -> Self {
        self.harness = Support::No;
        self
    }
}

#[async_trait]
impl ExecutionBackend for ReferenceBackend {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.images = Support::Yes;
        capabilities.system = Support::Yes;
        capabilities.output = OutputSupport::Instructed;
        capabilities.resume = Support::Yes;
        capabilities.forget = ForgetSupport::Deletes;
        capabilities.caller_tools = Support::Yes;
        capabilities.steering = Support::Yes;
        capabilities.harness_tools = self.harness;
        capabilities.extra_roots = self.harness;
        capabilities.efforts = vec![Effort::Low, Effort::Medium, Effort::High];
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::Vendor);
        if self.harness.is_yes() {
            capabilities.access.read_only = AccessSupport::Kept(AccessEnforcer::Vendor);
            capabilities.access.workspace_write = AccessSupport::Kept(AccessEnforcer::Vendor);
            capabilities.access.unrestricted = AccessSupport::Kept(AccessEnforcer::None);
        }
        capabilities.limits = LimitSupport::new()
            .with_tool_calls(Enforcement::Ours)
            .with_model_calls(Enforcement::Ours)
            .with_output_tokens(Enforcement::Ours)
            .with_cost(Enforcement::Ours);
        capabilities.cost = CostReport::Estimated;
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(None)
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let running = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let mut turn = Turn { backend: self, running, credential: None, renewal: Renewal::default() };
        if let Some(token) = self.environment.get(TOKEN_VARIABLE) {
            turn.running.hide(&Secret::new(token.as_str()));
        }
        let outcome = turn.work().await;
        turn.running.end(outcome).await
    }

    async fn forget(&self, handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        ForgetError::unless_of(&self.id, handle)?;
        session::forget(&self.home, handle)
    }
}
