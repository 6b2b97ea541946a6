//! The seam over any [`Dialect`](super::dialect::Dialect).

use async_trait::async_trait;
use nexus_core::{
    Availability, BackendId, Capabilities, EventSink, ExecutionBackend, TurnError, TurnHost, TurnRequest,
    TurnResult,
    harness::{TurnSpan, admit},
};

use super::model_server::ModelServer;
use super::turn_loop::TurnLoop;

/// One server that speaks the Responses API, as an [`ExecutionBackend`].
#[derive(Debug)]
pub(crate) struct NativeBackend(pub(crate) ModelServer);

#[async_trait]
impl ExecutionBackend for NativeBackend {
    fn id(&self) -> &BackendId {
        &self.0.id
    }

    fn capabilities(&self) -> Capabilities {
        self.0.dialect.capabilities()
    }

    async fn probe(&self) -> Availability {
        let Some(source) = &self.0.credential else {
            return match self.0.dialect.credential_remedy() {
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
        let span = TurnSpan::new(&self.0.id, &request);
        let turn = async {
            admit(&self.0.id, &self.capabilities(), &request, &host)
                .map_err(|failure| failure.into_error(self.0.id.clone()))?;
            // Boxed, as a future keeps every place that a value was moved through as long as it lives.
            Box::new(TurnLoop::new(&self.0, request, host)).run(events).await
        };
        span.run(turn).await
    }
}
