//! `--otlp`: the traces and metrics of the command, sent to a collector.

use std::time::Duration;

use nexus::TraceContext;
use nexus_otlp::{Collector, Exporter};
use tracing_subscriber::{Layer, Registry};

use crate::{
    args::{Command, FleetCommand},
    command_error::CommandError,
    output::complain,
};

/// Longest wait at the end for the collector to take the remaining data.
const PATIENCE: Duration = Duration::from_secs(3);

/// Exporter of traces and metrics, if the command line enables one.
#[derive(Debug)]
pub(crate) struct Telemetry(Option<(Collector, Exporter)>);

impl Telemetry {
    /// Starts the exporter that the command line enables. Environment variables alone enable nothing.
    pub(crate) fn start(command: &Command) -> Result<Self, CommandError> {
        let url = match command {
            Command::Run(run) => run.otlp.as_ref(),
            Command::Worker(worker) => worker.otlp.as_ref(),
            Command::Fleet(FleetCommand::Status { otlp, .. }) => otlp.as_ref(),
            _ => None,
        };
        let Some(url) = url else { return Ok(Self(None)) };
        let collector: Collector = url.parse().map_err(|error| format!("--otlp: this is {error}"))?;
        let exporter = Exporter::start(&collector, "nexus").map_err(|error| format!("--otlp: {error}"))?;
        Ok(Self(Some((collector, exporter))))
    }

    /// Returns the layer that receives the spans.
    pub(crate) fn layer(&self) -> Option<Box<dyn Layer<Registry> + Send + Sync>> {
        self.0.as_ref().map(|(_, exporter)| exporter.layer().boxed())
    }

    /// Returns the trace context, which is passed on to programs.
    pub(crate) fn trace_context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|(_, exporter)| exporter.trace_context())
    }

    /// Joins a span to the trace of another process.
    pub(crate) fn adopt(span: &tracing::Span, traceparent: &str) {
        Exporter::adopt(span, traceparent);
    }

    /// Sends the remaining data. A failure prints a warning, and never fails the turn.
    pub(crate) async fn finish(self) {
        let Some((collector, exporter)) = self.0 else { return };
        // Lost telemetry does not change the exit code of the command.
        if let Err(error) = exporter.shut_down(PATIENCE).await {
            complain(format_args!("the collector {collector} did not accept the telemetry: {error}"));
        }
    }
}
