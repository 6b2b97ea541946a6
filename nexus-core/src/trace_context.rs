//! What other processes are told of the trace that a turn is part of.

use std::{fmt, sync::Arc};

/// Names the current `tracing` span to another process, in the form of a W3C `traceparent`. Made by whoever exports the spans;
/// `nexus_otlp` does.
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
