//! Measurements: events of `tracing` that an exporter such as `nexus-otlp` turns into metrics.
//!
//! An event has the target `nexus::metrics`, the level `DEBUG`, and the fields `metric.name`, `metric.kind`, `metric.unit`,
//! `metric.description` and `metric.value`. Every other field is an attribute. Without a subscriber an event costs nothing.
//!
//! Attributes have few values: pools, backends of a configuration, lanes, kinds of errors. Names of turns, callers and
//! workers are not attributes.

use std::time::Duration;

use tracing::Level;

/// Name, unit and description of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) description: &'static str,
}

/// Attributes of a measurement.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Of<'a> {
    pub(crate) pool: Option<&'a str>,
    /// Name of the backend in the configuration.
    pub(crate) backend: Option<&'a str>,
    pub(crate) lane: Option<&'a str>,
    /// State of a worker: `ready` or `draining`.
    pub(crate) state: Option<&'static str>,
    /// Reason, such as the one for declining a turn.
    pub(crate) reason: Option<&'static str>,
    /// Kind of the error, if the operation failed.
    pub(crate) error: Option<&'a str>,
    /// Operation on a message, named as in the semantic conventions for messaging.
    pub(crate) operation: Option<&'static str>,
}

const COUNTER: &str = "counter";
const UP_DOWN: &str = "up_down_counter";
const HISTOGRAM: &str = "histogram";
const GAUGE: &str = "gauge";

macro_rules! metrics {
    ($($ident:ident: $kind:ident $unit:literal $name:literal, $description:literal;)*) => {
        $(pub(crate) const $ident: Metric =
            Metric { name: $name, kind: $kind, unit: $unit, description: $description };)*
        #[cfg(test)]
        const ALL: &[Metric] = &[$($ident),*];
    };
}

// Source of the names that begin with `messaging.` and their meanings: OpenTelemetry semantic conventions for messaging,
// 1.41.
metrics! {
    SENT: COUNTER "{message}" "messaging.client.sent.messages",
        "Turns that a caller put into a queue or tried to.";
    CONSUMED: COUNTER "{message}" "messaging.client.consumed.messages",
        "Turns that a worker took out of a queue, each time.";
    QUEUE_TIME: HISTOGRAM "s" "nexus.fleet.queue.time",
        "Time from sending a turn until a worker took it, by the clocks of both machines.";
    REDELIVERED: COUNTER "{message}" "nexus.fleet.queue.redelivered",
        "Turns that were taken after an earlier delivery to a worker.";
    SLOTS: UP_DOWN "{turn}" "nexus.fleet.worker.slots",
        "Maximum number of parallel turns of the workers.";
    RUNNING: UP_DOWN "{turn}" "nexus.fleet.worker.running",
        "Turns that run.";
    BEGUN: COUNTER "{turn}" "nexus.fleet.worker.begun",
        "Turns that a worker was permitted to start.";
    TURN_TIME: HISTOGRAM "s" "nexus.fleet.worker.turn.duration",
        "Time from the permission to start until the end of a turn, before it is stored.";
    DECLINED: COUNTER "{turn}" "nexus.fleet.worker.declined",
        "Turns that a worker took and did not run, by reason.";
    REPEATED: COUNTER "{frame}" "nexus.fleet.worker.frames.repeated",
        "Frames that were sent again.";
    UNSTORED: COUNTER "{failure}" "nexus.fleet.worker.store.failures",
        "Results, effects and large items that could not be stored, each time.";
    CALLER_TIME: HISTOGRAM "s" "nexus.fleet.caller.turn.duration",
        "Time from the call until the end of a turn, measured by its caller.";
    WAIT_TIME: HISTOGRAM "s" "nexus.fleet.caller.wait.time",
        "Time from storing a turn in its queue until the first message of a worker.";
    OVERLOADED: COUNTER "{turn}" "nexus.fleet.caller.overloaded",
        "Turns that found their queue full.";
    GAPS: COUNTER "{request}" "nexus.fleet.caller.frames.gaps",
        "Requests for frames that did not arrive.";
    DEPTH: GAUGE "{turn}" "nexus.fleet.queue.depth",
        "Waiting turns of each lane of a pool; `kept`: for the worker that stores their conversation.";
    WORKERS: GAUGE "{worker}" "nexus.fleet.workers",
        "Workers of a pool.";
    POOL_SLOTS: GAUGE "{turn}" "nexus.fleet.pool.slots",
        "Maximum number of parallel turns of the workers of a pool.";
    POOL_RUNNING: GAUGE "{turn}" "nexus.fleet.pool.running",
        "Turns that run in a pool.";
    HOLDS: GAUGE "{account}" "nexus.fleet.holds",
        "Accounts that are on hold at present.";
}

impl Metric {
    /// Adds to a count.
    pub(crate) fn add(&self, count: usize, of: Of<'_>) {
        self.change(i64::try_from(count).unwrap_or(i64::MAX), of);
    }

    /// Adds to a level or sets it, depending on its kind.
    pub(crate) fn change(&self, value: i64, of: Of<'_>) {
        // A float is exact here: our measurements stay below 2^53.
        self.tell(value as f64, of);
    }

    /// Records a duration.
    pub(crate) fn time(&self, time: Duration, of: Of<'_>) {
        self.tell(time.as_secs_f64(), of);
    }

    fn tell(&self, value: f64, of: Of<'_>) {
        tracing::event!(
            target: "nexus::metrics",
            Level::DEBUG,
            metric.name = self.name,
            metric.kind = self.kind,
            metric.unit = self.unit,
            metric.description = self.description,
            metric.value = value,
            nexus.fleet.pool = of.pool,
            nexus.fleet.lane = of.lane,
            nexus.fleet.state = of.state,
            nexus.fleet.reason = of.reason,
            gen_ai.agent.name = of.backend,
            error.type = of.error,
            messaging.system = of.operation.map(|_| "nats"),
            messaging.operation.name = of.operation,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = include_str!("../../../docs/guide/fleet.md");

    #[test]
    fn the_document_has_each_metric_with_its_kind_and_unit_and_no_other() {
        let rows = DOCUMENT
            .lines()
            .filter(|line| line.starts_with("| `messaging.") || line.starts_with("| `nexus.fleet."));
        let cell = |text: &str| text.trim().replace('`', "").replace(' ', "_");
        let mut documented: Vec<_> = rows
            .map(|row| row.trim_matches('|').split('|').map(cell).take(3).collect::<Vec<_>>().join(" "))
            .collect();
        let mut known: Vec<_> =
            ALL.iter().map(|metric| format!("{} {} {}", metric.name, metric.kind, metric.unit)).collect();
        documented.sort_unstable();
        known.sort_unstable();
        assert_eq!(documented, known);
    }
}
