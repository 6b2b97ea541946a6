//! Adds attributes to spans before they are sent, and derives the metrics of model calls from them.
//!
//! Source of names, units and boundaries: OpenTelemetry semantic conventions for generative AI, version 1.41,
//! metrics.

use std::{sync::Arc, time::Duration};

use opentelemetry::{
    Array, Context, Key, KeyValue, StringValue, Value,
    metrics::{Histogram, MeterProvider as _},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::SdkMeterProvider,
    trace::{Span, SpanData, SpanProcessor},
};

use crate::span_count::SpanCount;

const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";

/// Histogram boundaries for token counts.
const TOKENS: [f64; 14] = [
    1.0,
    4.0,
    16.0,
    64.0,
    256.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
];

/// Histogram boundaries for durations, in seconds.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];

/// Forwards spans to `next`. Splits the fields that the conventions define as lists, because `tracing` has no
/// list fields. Measures the model calls among the spans.
#[derive(Debug)]
pub(crate) struct GenAiProcessor<P> {
    next: P,
    tokens: Histogram<u64>,
    duration: Histogram<f64>,
    count: Arc<SpanCount>,
}

impl<P> GenAiProcessor<P> {
    pub(crate) fn new(next: P, metrics: &SdkMeterProvider, count: Arc<SpanCount>) -> Self {
        let meter = metrics.meter("nexus");
        Self {
            next,
            count,
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_description("Number of input and output tokens used.")
                .with_boundaries(TOKENS.to_vec())
                .build(),
            duration: meter
                .f64_histogram("gen_ai.client.operation.duration")
                .with_unit("s")
                .with_description("GenAI operation duration.")
                .with_boundaries(SECONDS.to_vec())
                .build(),
        }
    }

    /// Measures model calls only: the usage of an agent is the sum of its model calls.
    fn measure(&self, span: &SpanData) {
        let value = |key: &str| span.attributes.iter().find(|known| known.key.as_str() == key);
        let operation = value("gen_ai.operation.name");
        if operation.is_none_or(|operation| operation.value.as_str() != "chat") {
            return;
        }
        let shared = [
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.response.model",
        ];
        let attributes: Vec<KeyValue> = shared.iter().filter_map(|key| value(key)).cloned().collect();
        let took = span.end_time.duration_since(span.start_time).unwrap_or_default();
        // The conventions give an error type to the duration only, not to the tokens.
        let with_error: Vec<KeyValue> = attributes.iter().chain(value("error.type")).cloned().collect();
        self.duration.record(took.as_secs_f64(), &with_error);
        for (kind, key) in [("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")]
        {
            let Some(Value::I64(tokens)) = value(key).map(|known| &known.value) else { continue };
            let kind = KeyValue::new("gen_ai.token.type", kind);
            let attributes: Vec<KeyValue> = attributes.iter().cloned().chain([kind]).collect();
            self.tokens.record(u64::try_from(*tokens).unwrap_or_default(), &attributes);
        }
    }
}

impl<P: SpanProcessor> SpanProcessor for GenAiProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.next.on_start(span, context);
    }

    fn on_end(&self, mut span: SpanData) {
        // If a field was recorded twice, use its last value.
        let mut known = std::collections::HashSet::new();
        let mut attributes: Vec<KeyValue> = std::mem::take(&mut span.attributes);
        attributes.reverse();
        attributes.retain(|attribute| known.insert(attribute.key.clone()));
        attributes.reverse();
        for attribute in &mut attributes {
            if attribute.key == Key::from_static_str(FINISH_REASONS)
                && let Value::String(reason) = &attribute.value
            {
                let list: Vec<StringValue> = vec![reason.clone()];
                attribute.value = Value::Array(Array::String(list));
            }
        }
        span.attributes = attributes;
        self.measure(&span);
        // The batch processor drops spans that are not sampled, so these must not count as lost.
        if span.span_context.is_sampled() {
            self.count.ended();
        }
        self.next.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}
