//! Trace context of a turn, for other processes.

use std::{fmt, sync::Arc};

/// Names the current `tracing` span for another process, in the form of a W3C `traceparent`. The exporter of
/// the spans creates it, such as `nexus_otlp`.
#[derive(Clone)]
pub struct TraceContext(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl TraceContext {
    /// Asks `current` whenever a process is started. It names the span that it is called in, or none where that is not exported.
    pub fn new(current: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(current))
    }

    /// The name of the span that this is called in.
    pub fn traceparent(&self) -> Option<String> {
        (self.0)()
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceContext")
    }
}
