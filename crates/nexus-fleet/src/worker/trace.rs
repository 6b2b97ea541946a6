//! The span of a turn at its worker.

use std::{fmt, sync::Arc};

use nexus_core::TraceContext;
use tracing::{Span, field::Empty};

use crate::protocol::{QueuedTurn, queue_stream};

/// Function that makes a span the child of the span in a `traceparent`.
type Adopt = dyn Fn(&Span, &str) + Send + Sync;

/// Joins the spans of a worker's turns to those of their callers.
#[derive(Clone, Default)]
pub(super) struct Trace(Option<(TraceContext, Arc<Adopt>)>);

impl Trace {
    pub(super) fn new(context: TraceContext, adopt: impl Fn(&Span, &str) + Send + Sync + 'static) -> Self {
        Self(Some((context, Arc::new(adopt))))
    }

    /// Returns the span of a turn.
    ///
    /// Source of its attributes: OpenTelemetry semantic conventions for messaging, version 1.41.
    pub(super) fn span(&self, pool: &str, queued: &QueuedTurn) -> Span {
        let span = tracing::info_span!(
            "process",
            otel.name = format!("process {pool}"),
            otel.kind = "consumer",
            otel.status_code = Empty,
            messaging.system = "nats",
            messaging.operation.name = "process",
            messaging.operation.type = "process",
            messaging.destination.name = queue_stream(pool),
            error.type = Empty,
        );
        if let (Some((_, adopt)), Some(parent)) = (&self.0, &queued.traceparent) {
            adopt(&span, parent);
        }
        span
    }

    /// Returns the trace context for the programs of a turn: this worker's span, or else its caller's.
    pub(super) fn context(&self, queued: &QueuedTurn) -> Option<TraceContext> {
        match &self.0 {
            Some((context, _)) => Some(context.clone()),
            None => {
                let parent = queued.traceparent.clone()?;
                Some(TraceContext::new(move || Some(parent.clone())))
            }
        }
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("is_sent", &self.0.is_some()).finish()
    }
}
