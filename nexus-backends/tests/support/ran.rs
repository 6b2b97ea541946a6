//! How a turn went: its outcome, and every event of it in order.

use nexus_core::{EventEnvelope, ExecutionBackend, TurnError, TurnEvent, TurnHost, TurnRequest, TurnResult};

/// How a turn went.
pub(crate) struct Ran {
    pub(crate) outcome: Result<TurnResult, TurnError>,
    pub(crate) events: Vec<TurnEvent>,
}

impl Ran {
    /// Runs a turn to its end.
    pub(crate) async fn of(backend: &dyn ExecutionBackend, request: TurnRequest) -> Self {
        let mut events = Vec::new();
        let mut sink = |envelope: EventEnvelope| events.push(envelope.event);
        let outcome = backend.run_turn(request, TurnHost::new(), &mut sink).await;
        Self { outcome, events }
    }
}
