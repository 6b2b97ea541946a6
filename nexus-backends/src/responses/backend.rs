//! The seam over any [`Dialect`].

use std::sync::Arc;

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, Capabilities, EventSink, ExecutionBackend, TurnError, TurnHost, TurnRequest,
    TurnResult,
    harness::{TurnSpan, admit},
};

use super::dialect::Dialect;
use super::retry::RetryPolicy;
use super::settings::Settings;
use super::transport::Transport;
use super::turn_loop::TurnLoop;
use crate::auth::CredentialSource;

/// One server that speaks the Responses API, as an [`ExecutionBackend`].
#[derive(Debug)]
pub(crate) struct NativeBackend {
    pub(crate) id: BackendId,
    pub(crate) dialect: Arc<dyn Dialect>,
    pub(crate) transport: Transport,
    pub(crate) credential: Option<Arc<dyn CredentialSource>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) max_event_bytes: usize,
    pub(crate) parallel_tools: usize,
    pub(crate) repeated_calls: u32,
}

impl NativeBackend {
    /// Runs turns at the server that `transport` leads to.
    pub(crate) fn new(
        id: BackendId,
        dialect: Arc<dyn Dialect>,
        transport: Transport,
        credential: Option<Arc<dyn CredentialSource>>,
        settings: &Settings,
    ) -> Self {
        Self {
            id,
            dialect,
            transport,
            credential,
            retry: settings.retry_policy(),
            max_event_bytes: settings.max_event_bytes,
            parallel_tools: settings.parallel_tools,
            repeated_calls: settings.repeated_calls,
        }
    }
}

#[async_trait]
impl ExecutionBackend for NativeBackend {
    fn id(&self) -> &BackendId {
        &self.id
    }

    fn capabilities(&self) -> Capabilities {
        self.dialect.capabilities()
    }

    async fn probe(&self) -> Availability {
        let Some(source) = &self.credential else {
            return match self.dialect.credential_remedy() {
                Some(remedy) => Availability::Unauthenticated { remedy: remedy.to_owned() },
                None => Availability::ready(None),
            };
        };
        match source.standing().await {
            Ok(_) => Availability::ready(None),
            Err(error) => Availability::Unauthenticated { remedy: error.to_string() },
        }
    }

    async fn run_turn(
        &self,
        request: TurnRequest,
        host: TurnHost,
        events: &mut dyn EventSink,
    ) -> Result<TurnResult, TurnError> {
        let span = TurnSpan::new(&self.id, &request);
        let turn = async {
            admit(&self.id, &self.capabilities(), &request, &host)
                .map_err(|failure| failure.into_error(self.id.clone()))?;
            // Boxed, as a future keeps every place that a value was moved through as long as it lives.
            Box::new(TurnLoop::new(self, request, host)).run(events).await
        };
        span.run(turn).await
    }
}
