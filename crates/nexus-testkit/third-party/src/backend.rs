//! The backend itself.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    AccessEnforcer, AccessSupport, Availability, BackendId, Capabilities, EventSink, ExecutionBackend,
    ForgetError, Forgotten, LoopMode, ResumeHandle, Support, TextGranularity, TurnError, TurnHost,
    TurnRequest, TurnResult, harness::RunningTurn,
};

use crate::{turn::speak, voice::Voice};

/// Runs turns with a [`Voice`].
#[derive(Clone, Debug)]
pub struct Parrot {
    id: BackendId,
    voice: Arc<dyn Voice>,
}

impl Parrot {
    /// A backend that speaks with `voice`.
    pub fn new(voice: Arc<dyn Voice>) -> Self {
        Self { id: BackendId::new("parrot"), voice }
    }
}

#[async_trait]
impl ExecutionBackend for Parrot {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new(LoopMode::Native);
        capabilities.text = TextGranularity::Deltas;
        capabilities.thinking = Support::Yes;
        capabilities.caller_tools = Support::Yes;
        capabilities.access.scoped_only = AccessSupport::Kept(AccessEnforcer::None);
        capabilities
    }

    async fn probe(&self) -> Availability {
        Availability::ready(Some(env!("CARGO_PKG_VERSION").to_owned()))
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let mut turn = RunningTurn::begin(&self.id, &self.capabilities(), request, host, events)?;
        let outcome = speak(&*self.voice, &mut turn).await;
        turn.end(outcome).await
    }

    /// A parrot stores no conversation.
    async fn forget(&self, _handle: &ResumeHandle) -> Result<Forgotten, ForgetError> {
        Err(ForgetError::Unsupported { backend: self.id.clone() })
    }
}
