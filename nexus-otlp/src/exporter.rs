//! The exporters of traces and metrics, from their start to their end.

use std::time::Duration;

use nexus_core::TraceContext;
use opentelemetry::{
    Context, KeyValue,
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

use crate::{Collector, processor::GenAiProcessor, sender::Sender};

/// How long one request to the collector may take, retries included.
const EXPORT: Duration = Duration::from_secs(2);

/// Sends spans and metrics to a collector until it is shut down.
#[derive(Debug)]
pub struct Exporter {
    traces: SdkTracerProvider,
    metrics: SdkMeterProvider,
    tracer: SdkTracer,
    sender: Sender,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The exporter cannot be set up.
    #[error("the exporter cannot be set up: {0}")]
    SetUp(String),
    /// The collector did not take what was sent last.
    #[error("{0}")]
    NotTaken(String),
    /// The rest was not sent in time.
    #[error("the collector does not answer in time")]
    Late,
}

impl Exporter {
    /// Starts to send to `collector`, as the service `service`. It is called in a Tokio runtime, by which it sends; the runtime
    /// has more than one thread, or [`Exporter::shut_down`] is awaited before it ends.
    ///
    /// # Errors
    ///
    /// [`ExportError::SetUp`]. Nothing is sent here.
    pub fn start(collector: &Collector, service: impl Into<String>) -> Result<Self, ExportError> {
        let runtime = Handle::try_current().map_err(set_up)?;
        let sender = Sender::new(runtime, collector).map_err(ExportError::SetUp)?;
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_endpoint(collector.of("traces"))
            .with_timeout(EXPORT)
            .build()
            .map_err(set_up)?;
        let measurements = MetricExporter::builder()
            .with_http()
            .with_http_client(sender.clone())
            .with_endpoint(collector.of("metrics"))
            .with_timeout(EXPORT)
            .build()
            .map_err(set_up)?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder().with_service_name(service.into()).with_attribute(version).build();
        let metrics = SdkMeterProvider::builder()
            .with_resource(resource.clone())
            .with_reader(PeriodicReader::builder(measurements).build())
            .build();
        let batches = BatchSpanProcessor::builder(spans).build();
        let traces = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(GenAiProcessor::new(batches, &metrics))
            .build();
        let tracer = traces.tracer("nexus");
        Ok(Self { traces, metrics, tracer, sender })
    }

    /// The layer that takes spans, for the program's subscriber. Spans of level `INFO` and above count, and no events.
    pub fn layer<S>(&self) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span> + Send + Sync,
    {
        let is_ours = FilterFn::new(|metadata| metadata.is_span() && *metadata.level() <= Level::INFO);
        tracing_opentelemetry::layer()
            .with_tracer(self.tracer.clone())
            .with_location(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_target(false)
            .with_filter(is_ours.with_max_level_hint(Level::INFO))
    }

    /// Names the span of a turn to the programs that run it.
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

    /// Sends the rest, for `patience` at most.
    ///
    /// # Errors
    ///
    /// What kept the collector from taking it. No header is in the message.
    pub async fn shut_down(self, patience: Duration) -> Result<(), ExportError> {
        let Self { traces, metrics, sender, .. } = self;
        let flush = tokio::task::spawn_blocking(move || {
            let traces = traces.shutdown_with_timeout(patience);
            let metrics = metrics.shutdown_with_timeout(patience);
            traces.and(metrics)
        });
        let flushed = tokio::time::timeout(patience, flush).await;
        match (sender.problem(), flushed) {
            (Some(problem), _) => Err(ExportError::NotTaken(problem)),
            (None, Ok(Ok(Ok(())))) => Ok(()),
            (None, Ok(Ok(Err(error)))) => Err(ExportError::NotTaken(error.to_string())),
            (None, _) => Err(ExportError::Late),
        }
    }
}

fn set_up(error: impl std::fmt::Display) -> ExportError {
    ExportError::SetUp(error.to_string())
}
