//! Sends the traces and metrics of turns to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! The libraries of Nexus create `tracing` spans with the fields of the OpenTelemetry conventions for generative AI (version 1.41).
//! This crate converts them to the form that a collector expects, and adds the metrics of model calls. Events of the target
//! `nexus::metrics` are measurements, such as those of `nexus-fleet`. A measurement has the fields `metric.name`, `metric.kind`
//! (`counter`, `up_down_counter`, `histogram`, `gauge`), `metric.unit`, `metric.description` and `metric.value`. Every other field is
//! an attribute.
//!
//! | part | purpose |
//! | --- | --- |
//! | [`Collector`] | base URL of the collector, in the form of `OTEL_EXPORTER_OTLP_ENDPOINT` |
//! | [`Exporter`] | [`Exporter::layer`] is added to the program's subscriber; [`Exporter::shut_down`] sends the rest |
//! | [`Exporter::trace_context`] | passes the trace to the programs that a turn starts |
//! | [`Exporter::adopt`] | joins a span to the trace of another process |
//!
//! The crate sends the headers of `OTEL_EXPORTER_OTLP_HEADERS`, and never prints them. The sent data contains no prompt, answer or
//! argument, and no other events of `tracing`, because those are not meant for outsiders.
//!
//! ```no_run
//! use std::time::Duration;
//! use tracing_subscriber::layer::SubscriberExt as _;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let exporter = nexus_otlp::Exporter::start(&"http://127.0.0.1:4318".parse()?, "my-program")?;
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(exporter.layer()))?;
//! // Turns run here, with a host that has `.with_trace_context(exporter.trace_context())`.
//! exporter.shut_down(Duration::from_secs(3)).await?;
//! # Ok(())
//! # }
//! ```

mod collector;
mod exporter;
mod metrics;
mod processor;
mod sender;
mod span_count;

pub use collector::{Collector, CollectorError};
pub use exporter::{ExportError, Exporter};
