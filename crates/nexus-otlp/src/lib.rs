//! Sends the traces and metrics of turns to an OpenTelemetry collector, by OTLP over HTTP.
//!
//! The libraries of Nexus report `tracing` spans that carry what the OpenTelemetry conventions for generative AI (version 1.41)
//! name. This crate makes them what a collector expects, and adds the metrics of model calls. Events of the target `nexus::metrics`
//! are measurements, such as those of `nexus-fleet`; each is in the fields `metric.name`, `metric.kind` (`counter`, `up_down_counter`,
//! `histogram`, `gauge`), `metric.unit`, `metric.description` and `metric.value`, and every other field is an attribute:
//!
//! | part | does |
//! | --- | --- |
//! | [`Collector`] | where the collector is: a base URL, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it |
//! | [`Exporter`] | [`Exporter::layer`] is added to the program's subscriber; [`Exporter::shut_down`] sends the rest |
//! | [`Exporter::trace_context`] | names the trace to the programs that a turn starts |
//! | [`Exporter::adopt`] | joins a span to the trace of another process |
//!
//! `OTEL_EXPORTER_OTLP_HEADERS` is honoured, and never shown. No prompt, answer or argument is in what is sent, and no other events of
//! `tracing`: they are not made for strangers.
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
