//! The tracing span of a turn.

use std::future::Future;

use tracing::{Instrument as _, Span, field::Empty};

use crate::{BackendId, Capabilities, ModelId, TurnRequest, Usage};

/// The span that a turn runs in, at level `INFO`, as the OpenTelemetry conventions for generative AI describe
/// the span of an agent's invocation (`invoke_agent`, version 1.41).
/// [`TurnLog::in_span`](super::TurnLog::in_span) creates the spans of model calls and tool calls as its children,
/// and records usage, model and error.
///
/// Fields that begin with `otel.` are for `tracing-opentelemetry`: name, kind and status of the span. No field
/// contains text of the turn.
#[derive(Clone, Debug)]
pub struct TurnSpan {
    pub(super) span: Span,
    pub(super) provider: Option<String>,
    pub(super) model: Option<ModelId>,
}

impl TurnSpan {
    /// Creates the span of a turn of `backend`.
    pub fn new(backend: &BackendId, capabilities: &Capabilities, request: &TurnRequest) -> Self {
        let span = tracing::info_span!(
            "invoke_agent",
            otel.name = format!("invoke_agent {backend}"),
            otel.kind = "internal",
            otel.status_code = Empty,
            gen_ai.operation.name = "invoke_agent",
            gen_ai.provider.name = capabilities.provider,
            gen_ai.agent.name = backend.as_str(),
            gen_ai.agent.version = Empty,
            gen_ai.conversation.id = Empty,
            gen_ai.request.model = request.model.as_ref().map(ModelId::as_str),
            gen_ai.response.model = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.usage.reasoning.output_tokens = Empty,
            error.type = Empty,
        );
        Self { span, provider: capabilities.provider.clone(), model: request.model.clone() }
    }

    /// Runs `turn` inside the span.
    pub fn run<T>(&self, turn: impl Future<Output = T>) -> impl Future<Output = T> {
        turn.instrument(self.span.clone())
    }
}

/// The span of a tool call, from [`TurnLog::tool_span`](super::TurnLog::tool_span).
#[derive(Clone, Debug)]
pub struct ToolSpan(pub(super) Option<Span>);

impl ToolSpan {
    /// Runs the call's answer inside the span.
    pub fn run<T>(self, answer: impl Future<Output = T>) -> impl Future<Output = T> {
        answer.instrument(self.0.unwrap_or_else(Span::current))
    }
}

/// Adds the tokens of one model call, or of all calls of a turn.
pub(super) fn record_usage(span: &Span, usage: &Usage) {
    let fields = [
        // The conventions count cached tokens as input as well.
        ("gen_ai.usage.input_tokens", usage.all_input_tokens()),
        ("gen_ai.usage.output_tokens", usage.all_output_tokens()),
        ("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens),
        ("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens),
        ("gen_ai.usage.reasoning.output_tokens", usage.reasoning_tokens),
    ];
    for (name, tokens) in fields {
        // `tracing-opentelemetry` writes unsigned numbers as text.
        if let Some(tokens) = tokens.and_then(|tokens| i64::try_from(tokens).ok()) {
            span.record(name, tokens);
        }
    }
}

/// Marks a span as failed. Leaves out the error's message, which may repeat text of the turn.
pub(super) fn record_error(span: &Span, kind: impl std::fmt::Debug) {
    span.record("error.type", format!("{kind:?}"));
    span.record("otel.status_code", "ERROR");
}
