//! The command line of `nexus worker` and `nexus fleet`.

use std::{num::NonZeroUsize, time::Duration};

use clap::{Args as ClapArgs, Subcommand};

use super::seconds;

/// Text below the options of `nexus worker`.
pub(super) const WORKER_HELP: &str = "\
The section `fleet` of the configuration names the servers, and its `worker` limits the requests: folders, access levels and \
backends. A backend with a `pool` runs here, so workers and callers can use the same file.

A worker that `login_owner` names lends access tokens of that login to the listed machines while it runs.

SIGTERM or Ctrl-C drains: no further turn is taken, and running turns finish; the second signal ends them immediately.

Exit codes: 0 drained, 1 the servers could not be used or no backend can start, 2 bad command line or configuration, 128 plus \
the signal if a second signal ended it.";

#[derive(Debug, ClapArgs)]
pub(crate) struct WorkerArgs {
    /// Name of the pool, as in `pool` of a backend
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) pool: String,
    /// Name of the worker in its pool. Default: the configured name, else the name of the machine
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(crate) name: Option<String>,
    /// Maximum number of concurrent turns. Default: the configured number, else 4
    #[arg(long, value_name = "N")]
    pub(crate) turns: Option<NonZeroUsize>,
    /// Send traces and metrics to the OpenTelemetry collector at this base URL by OTLP over HTTP, such as
    /// http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_HEADERS sets extra headers
    #[cfg(feature = "otlp")]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Print the workers of each pool, the running and waiting turns, and the accounts on hold
    Status {
        /// Refresh every so many seconds, until Ctrl-C
        #[arg(long, value_name = "SECONDS", value_parser = interval)]
        watch: Option<Duration>,
        /// Send the status as metrics to the OpenTelemetry collector at this base URL by OTLP over HTTP, such as
        /// http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_HEADERS sets extra headers
        #[cfg(feature = "otlp")]
        #[arg(long, value_name = "URL")]
        otlp: Option<String>,
    },
    /// Create the streams and buckets of the fleet, and the queues of pools. Existing ones are not changed
    Setup {
        /// Pool to create a queue for. May be repeated
        #[arg(long, value_name = "NAME", value_parser = name)]
        pool: Vec<String>,
    },
    /// Print the public key of this machine, for `login_owner`. The first call creates the key pair; the secret half is stored in
    /// an owner-only file and never printed
    Key,
}

/// The name of a pool or of a worker.
fn name(text: &str) -> Result<String, String> {
    nexus::name_fault(text).map_or_else(|| Ok(text.to_owned()), |fault| Err(fault.to_owned()))
}

/// Parses the pause between two refreshes.
fn interval(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        short if short < Duration::from_millis(100) => Err("at least 0.1".to_owned()),
        interval => Ok(interval),
    }
}
