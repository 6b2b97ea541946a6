//! The span of a turn, with the names that OpenTelemetry gives to work of this sort. No prompt, no answer.

use std::future::Future;

use nexus_core::{TurnError, TurnRequest, TurnResult, Usage};
use tracing::{Instrument, Span, field::Empty};

use crate::{binding::Binding, config::Configuration};

/// The span of a turn that is about to begin.
pub(crate) fn turn_span(name: &str, request: &TurnRequest, binding: &Binding) -> Span {
    let span = tracing::info_span!(
        "turn",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.provider.name = Empty,
        gen_ai.request.model = Empty,
        gen_ai.response.model = Empty,
        gen_ai.response.finish_reasons = Empty,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
        nexus.kind = name,
        nexus.group = %binding.group,
        nexus.backend = Empty,
        nexus.skipped = Empty,
    );
    if let Some(model) = request.model.as_ref().or(binding.model.as_ref()) {
        span.record("gen_ai.request.model", model.as_str());
    }
    span
}

/// Runs a turn in its span, and records how it ended.
pub(crate) async fn observed(
    turn: impl Future<Output = Result<TurnResult, TurnError>>,
    span: Span,
    configuration: &Configuration,
) -> Result<TurnResult, TurnError> {
    let outcome = turn.instrument(span.clone()).await;
    let (backend, usage, skipped) = match &outcome {
        Ok(result) => {
            span.record("gen_ai.response.finish_reasons", result.finish.to_string());
            if let Some(model) = &result.provenance.model {
                span.record("gen_ai.response.model", model.as_str());
            }
            (&result.provenance.backend, &result.usage, result.provenance.skipped.len())
        }
        Err(error) => {
            span.record("error.type", format!("{:?}", error.kind()));
            (error.backend(), &error.partial().usage, error.skipped().len())
        }
    };
    span.record("nexus.backend", backend.as_str());
    if let Some(vendor) = configuration.vendor(backend) {
        span.record("gen_ai.provider.name", vendor.as_str());
    }
    if let Some(tokens) = input_tokens(usage) {
        span.record("gen_ai.usage.input_tokens", tokens);
    }
    if let Some(tokens) = usage.all_output_tokens() {
        span.record("gen_ai.usage.output_tokens", tokens);
    }
    span.record("nexus.skipped", skipped);
    outcome
}

/// Everything the vendor counted as input, cached or not.
fn input_tokens(usage: &Usage) -> Option<u64> {
    [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens]
        .into_iter()
        .flatten()
        .fold(None, |sum: Option<u64>, tokens| Some(sum.unwrap_or(0).saturating_add(tokens)))
}
