//! Creates metrics from the events by which a library measures.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
};

use opentelemetry::{
    KeyValue,
    metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter},
};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// Target of events that are measurements.
pub(crate) const TARGET: &str = "nexus::metrics";
/// Prefix of the fields that describe the measurement itself. All other fields are attributes.
const OWN: &str = "metric.";
/// Maximum number of distinct instruments. Source: our own bound, above the number that all crates of Nexus record.
const MAX_INSTRUMENTS: usize = 256;

/// Histogram boundaries for times that turns take or wait, in seconds.
const SECONDS: [f64; 18] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3_600.0,
    14_400.0,
];

/// Records events of the target `nexus::metrics` as metrics. They have the fields `metric.name`, `metric.kind` (`counter`,
/// `up_down_counter`, `histogram` or `gauge`), `metric.unit`, `metric.description` and `metric.value`. Every other field is
/// an attribute.
pub(crate) struct MetricsLayer {
    meter: Meter,
    instruments: Mutex<HashMap<String, Instrument>>,
}

#[derive(Clone)]
enum Instrument {
    Counter(Counter<u64>),
    UpDown(UpDownCounter<i64>),
    Histogram(Histogram<f64>),
    Gauge(Gauge<i64>),
}

impl MetricsLayer {
    pub(crate) fn new(meter: Meter) -> Self {
        Self { meter, instruments: Mutex::default() }
    }

    /// Returns the instrument of a measurement. The first measurement of a name creates it.
    fn instrument(&self, measurement: &Measurement) -> Option<Instrument> {
        let mut instruments = self.instruments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = instruments.get(&measurement.name) {
            return Some(known.clone());
        }
        // Instruments are never removed, so generated names would use up memory.
        if measurement.name.is_empty() || instruments.len() >= MAX_INSTRUMENTS {
            return None;
        }
        let name = measurement.name.clone();
        let (unit, description) = (measurement.unit.clone(), measurement.description.clone());
        let meter = &self.meter;
        let made = match measurement.kind.as_str() {
            "counter" => Instrument::Counter(
                meter.u64_counter(name).with_unit(unit).with_description(description).build(),
            ),
            "up_down_counter" => Instrument::UpDown(
                meter.i64_up_down_counter(name).with_unit(unit).with_description(description).build(),
            ),
            "gauge" => {
                Instrument::Gauge(meter.i64_gauge(name).with_unit(unit).with_description(description).build())
            }
            "histogram" => {
                let histogram = meter.f64_histogram(name).with_description(description);
                let histogram =
                    if unit == "s" { histogram.with_boundaries(SECONDS.to_vec()) } else { histogram };
                Instrument::Histogram(histogram.with_unit(unit).build())
            }
            _ => return None,
        };
        instruments.insert(measurement.name.clone(), made.clone());
        Some(made)
    }
}

impl<S: Subscriber> Layer<S> for MetricsLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut measurement = Measurement::default();
        event.record(&mut measurement);
        let Some(value) = measurement.value else { return };
        let attributes = &measurement.attributes;
        // A value outside of the instrument's number type is clamped. No measurement of Nexus reaches such values.
        match self.instrument(&measurement) {
            Some(Instrument::Counter(counter)) => counter.add(value.max(0.0) as u64, attributes),
            Some(Instrument::UpDown(counter)) => counter.add(value as i64, attributes),
            Some(Instrument::Histogram(histogram)) => histogram.record(value, attributes),
            Some(Instrument::Gauge(gauge)) => gauge.record(value as i64, attributes),
            None => {}
        }
    }
}

/// Fields of a measurement's event.
#[derive(Default)]
struct Measurement {
    name: String,
    kind: String,
    unit: String,
    description: String,
    value: Option<f64>,
    attributes: Vec<KeyValue>,
}

impl Visit for Measurement {
    fn record_f64(&mut self, field: &Field, value: f64) {
        match field.name() {
            "metric.value" => self.value = Some(value),
            name if name.starts_with(OWN) => {}
            name => self.attributes.push(KeyValue::new(name, value)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        match field.name() {
            "metric.value" => self.value = Some(value as f64),
            name if name.starts_with(OWN) => {}
            name => self.attributes.push(KeyValue::new(name, value)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // Attributes of OpenTelemetry have no unsigned numbers.
        self.record_i64(field, i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "metric.name" => value.clone_into(&mut self.name),
            "metric.kind" => value.clone_into(&mut self.kind),
            "metric.unit" => value.clone_into(&mut self.unit),
            "metric.description" => value.clone_into(&mut self.description),
            name if name.starts_with(OWN) => {}
            name => self.attributes.push(KeyValue::new(name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // `tracing` also passes fields written with `%` to this function.
        self.record_str(field, &format!("{value:?}"));
    }
}
