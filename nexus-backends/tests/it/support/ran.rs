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

    /// The result of a turn that ended well.
    pub(crate) fn result(&self) -> &TurnResult {
        self.outcome.as_ref().unwrap_or_else(|error| panic!("{error:?}"))
    }

    /// The error of a turn that failed.
    pub(crate) fn error(&self) -> &TurnError {
        match &self.outcome {
            Err(error) => error,
            Ok(result) => panic!("it ended well: {result:?}"),
        }
    }

    /// The texts of the warnings.
    pub(crate) fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match event {
            TurnEvent::Warning(warning) => Some(warning.text.as_str()),
            _ => None,
        });
        warnings.collect()
    }
}
