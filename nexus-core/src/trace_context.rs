//! Trace context of a turn, for other processes.

use std::{fmt, sync::Arc};

/// Returns the current `tracing` span for another process, as a W3C `traceparent`. The exporter of the spans, such as
/// `nexus_otlp`, creates it.
#[derive(Clone)]
pub struct TraceContext(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl TraceContext {
    /// Creates a context that calls `current` whenever a process is started. `current` returns the span that it is called in, or
    /// `None` if that span is not exported.
    pub fn new(current: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(current))
    }

    /// Returns the `traceparent` of the current span.
    pub fn traceparent(&self) -> Option<String> {
        (self.0)()
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceContext")
    }
}
