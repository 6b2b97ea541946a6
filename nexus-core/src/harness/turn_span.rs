//! The tracing span of a turn.

use std::future::Future;

use tracing::Instrument as _;

use crate::{BackendId, TurnRequest};

/// The span that a turn runs in, named `turn`, at level `INFO`, with the OpenTelemetry attributes for generative AI. Usage,
/// model and error are added by [`TurnLog::into_result`](super::TurnLog::into_result) and
/// [`TurnLog::into_error`](super::TurnLog::into_error), which are called inside of it.
#[derive(Debug)]
pub struct TurnSpan(tracing::Span);

impl TurnSpan {
    /// The span of a turn of `backend`.
    pub fn new(backend: &BackendId, request: &TurnRequest) -> Self {
        Self(tracing::info_span!(
            "turn",
            gen_ai.operation.name = "invoke_agent",
            gen_ai.agent.name = %backend,
            gen_ai.request.model = request.model.as_ref().map(tracing::field::display),
            gen_ai.response.model = tracing::field::Empty,
            gen_ai.usage.input_tokens = tracing::field::Empty,
            gen_ai.usage.output_tokens = tracing::field::Empty,
            error.type = tracing::field::Empty,
        ))
    }

    /// Runs a part of the turn inside the span.
    pub(super) fn part<T>(&self, part: impl Future<Output = T>) -> impl Future<Output = T> {
        part.instrument(self.0.clone())
    }

    /// Does the last of the turn inside the span.
    pub(super) fn end<T>(&self, end: impl FnOnce() -> T) -> T {
        self.0.in_scope(end)
    }

    /// Runs `turn` inside the span.
    pub fn run<T>(self, turn: impl Future<Output = T>) -> impl Future<Output = T> {
        turn.instrument(self.0)
    }
}
