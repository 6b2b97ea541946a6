//! The tracing span of a routed turn, from the choice of a backend to the end of the last attempt. Each
//! backend below it has an `invoke_agent` span with the model and the usage.

use std::future::Future;

use nexus_core::{TurnError, TurnResult};
use tracing::{Instrument, Span, field::Empty};

use crate::binding::Binding;

/// Creates the span of a turn.
pub(crate) fn turn_span(name: &str, binding: &Binding) -> Span {
    tracing::info_span!(
        "turn",
        otel.name = format!("turn {name}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        nexus.kind = name,
        nexus.group = binding.group.as_str(),
        nexus.backend = Empty,
        nexus.skipped = Empty,
    )
}

/// Runs a turn in its span, and records its outcome.
pub(crate) async fn observed(
    turn: impl Future<Output = Result<TurnResult, TurnError>>,
    span: Span,
) -> Result<TurnResult, TurnError> {
    let outcome = turn.instrument(span.clone()).await;
    let (backend, skipped) = match &outcome {
        Ok(result) => (&result.provenance.backend, result.provenance.skipped.len()),
        Err(error) => {
            span.record("error.type", format!("{:?}", error.kind()));
            span.record("otel.status_code", "ERROR");
            (error.backend(), error.skipped().len())
        }
    };
    span.record("nexus.backend", backend.as_str());
    // `tracing-opentelemetry` writes unsigned numbers as text.
    span.record("nexus.skipped", i64::try_from(skipped).unwrap_or(i64::MAX));
    outcome
}
