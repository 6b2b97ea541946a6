//! Exporters of traces and metrics.

use std::{sync::Arc, time::Duration};

use nexus_core::{TraceContext, harness::run_blocking};
use opentelemetry::{
    Context, KeyValue,
    metrics::MeterProvider as _,
    propagation::TextMapPropagator as _,
    trace::{TraceContextExt as _, TracerProvider as _},
};
use opentelemetry_otlp::{MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    propagation::TraceContextPropagator,
    trace::{BatchSpanProcessor, SdkTracer, SdkTracerProvider},
};
use tokio::runtime::Handle;
use tracing::{Level, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::{Layer, filter::FilterFn, registry::LookupSpan};

use crate::{
    Collector,
    metrics::{MetricsLayer, TARGET},
    processor::GenAiProcessor,
    sender::{REQUEST, Sender},
    span_count::{CountingExporter, SpanCount},
};

/// Reason for lost spans if the collector accepted every request. Source of the variable: OpenTelemetry specification, "Batch span
/// processor"; its default is 2,048.
const OVERFLOW: &str =
    "more spans ended at once than the queue can hold; OTEL_BSP_MAX_QUEUE_SIZE sets its size";

/// Sends spans and metrics to a collector until it is shut down.
#[derive(Debug)]
pub struct Exporter {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
    tracer: SdkTracer,
    sender: Sender,
    count: Arc<SpanCount>,
}

/// Reason why data was not sent.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The exporter cannot be set up.
    #[error("the exporter cannot be set up: {0}")]
    SetUp(String),
    /// The collector did not accept the last data, but no span is lost.
    #[error("{0}")]
    NotTaken(String),
    /// Spans are lost. The collector did not accept them, or more spans waited than the SDK stores.
    #[error("{reason} ({lost} of {spans} spans are lost)")]
    SpansLost {
        /// Number of lost spans.
        lost: u64,
        /// Number of all spans.
        spans: u64,
        /// Reason for the latest loss.
        reason: String,
    },
    /// The remaining data was not sent in time.
    #[error("the collector does not answer in time")]
    Late,
}

impl Exporter {
    /// Starts to send to `collector`, under the service name `service`. Call it in a Tokio runtime, which runs the sending. The
    /// runtime needs more than one thread, or [`Exporter::shut_down`] must be awaited before the runtime ends.
    ///
    /// # Errors
    ///
    /// [`ExportError::SetUp`]. This call itself sends nothing.
    pub fn start(collector: &Collector, service: impl Into<String>) -> Result<Self, ExportError> {
        let runtime = Handle::try_current().map_err(set_up)?;
        let count = Arc::new(SpanCount::default());
        let sender = Sender::new(runtime, collector, Arc::clone(&count)).map_err(ExportError::SetUp)?;
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_endpoint(collector.of("traces"))
            .with_timeout(REQUEST)
            .build()
            .map_err(set_up)?;
        let measurements = MetricExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_endpoint(collector.of("metrics"))
            .with_timeout(REQUEST)
            .build()
            .map_err(set_up)?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(service.into()).with_attribute(version).build();
        let metrics = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_reader(PeriodicReader::builder(measurements).build())
            .build();
        let batches = BatchSpanProcessor::builder(CountingExporter::new(spans, Arc::clone(&count))).build();
        let traces = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(GenAiProcessor::new(batches, &metrics, Arc::clone(&count)))
            .build();
        let tracer = traces.tracer("nexus");
        Ok(Self { traces, metrics, tracer, sender, count })
    }

    /// Returns the layer for the program's subscriber, which collects spans and measurements. It collects spans of level `INFO` and
    /// above, and events of the target `nexus::metrics`.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let is_ours = FilterFn::new(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO);
        let is_measurement = FilterFn::new(|metadata| metadata.is_event() && metadata.target() == TARGET);
        let measurements = MetricsLayer::new(self.metrics.meter("nexus"));
        let spans = tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_filter(is_ours.with_max_level_hint(Level::INFO));
        spans.and_then(measurements.with_filter(is_measurement.with_max_level_hint(Level::DEBUG)))
    }

    /// Makes `span` a child of the remote span that a W3C `traceparent` names. Call it before the span is
    /// entered. A malformed `traceparent` changes nothing.
    pub fn adopt(span: &tracing::Span, traceparent: &str) {
        let carrier = std::collections::HashMap::from([("traceparent".to_owned(), traceparent.to_owned())]);
        // Ignore an error: a span that is not exported needs no parent.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
    }

    /// Returns the trace context of a turn's span, for the programs that run the turn.
    pub fn trace_context(&self) -> TraceContext {
        TraceContext::new(|| {
            let context: Context = tracing::Span::current().context();
            context.span().span_context().is_valid().then(|| {
                let mut carrier = std::collections::HashMap::new();
                TraceContextPropagator::new().inject_context(&context, &mut carrier);
                carrier.remove("traceparent").unwrap_or_default()
            })
        })
    }

    /// Sends the remaining data, for at most `patience`.
    ///
    /// # Errors
    ///
    /// [`ExportError::SpansLost`] with the number of spans that the collector has not accepted since the start. If no span is lost,
    /// [`ExportError::NotTaken`] or [`ExportError::Late`]. The message contains no header.
    pub async fn shut_down(self, patience: Duration) -> Result<(), ExportError> {
        let Self { traces, metrics, sender, count, .. } = self;
        // The SDK blocks its thread until the requests end, and these run on this runtime.
        let flush = run_blocking(move || {
            let traces = traces.shutdown_with_timeout(patience);
            let metrics = metrics.shutdown_with_timeout(patience);
            traces.and(metrics)
        });
        let flushed = tokio::time::timeout(patience, flush).await;
        let error = match (sender.problem(), flushed) {
            // The collector's answer explains more than the error of the SDK.
            (Some(problem), _) => Some(ExportError::NotTaken(problem)),
            (None, Ok(Ok(Ok(())))) => None,
            (None, Ok(Ok(Err(error)))) => Some(ExportError::NotTaken(error.to_string())),
            (None, _) => Some(ExportError::Late),
        };
        let (lost, spans) = count.lost();
        if lost == 0 {
            return error.map_or(Ok(()), Err);
        }
        let reason = error.map(|error| error.to_string()).or_else(|| sender.last_problem());
        Err(ExportError::SpansLost { lost, spans, reason: reason.unwrap_or_else(|| OVERFLOW.to_owned()) })
    }
}

fn set_up(error: impl std::fmt::Display) -> ExportError {
    ExportError::SetUp(error.to_string())
}
