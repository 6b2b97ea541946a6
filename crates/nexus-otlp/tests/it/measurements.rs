//! Events that are measurements, before a collector.

use std::{collections::BTreeMap, time::Duration};

use nexus_otlp::Exporter;
use opentelemetry_proto::tonic::{
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data, number_data_point},
};
use tracing::{Level, event, instrument::WithSubscriber as _};
use tracing_subscriber::layer::SubscriberExt as _;

use super::receiver::Received;

macro_rules! measure {
    ($name:literal, $kind:literal, $unit:literal, $value:expr $(, $($more:tt)*)?) => {
        event!(target: "nexus::metrics", Level::DEBUG, metric.name = $name, metric.kind = $kind, metric.unit = $unit,
            metric.description = "What it is.", metric.value = $value $(, $($more)*)?)
    };
}

async fn sent(work: impl Future<Output = ()>) -> Received {
    let (received, url) = Received::start().await;
    let exporter = Exporter::start(&url.parse().unwrap(), "measurements").unwrap();
    let subscriber = tracing_subscriber::registry().with(exporter.layer());
    work.with_subscriber(subscriber).await;
    exporter.shut_down(Duration::from_secs(60)).await.unwrap();
    received
}

fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &KeyValue| match value.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    };
    list.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

/// Attribute `pool`, and the figure.
fn numbers(metric: &Metric) -> BTreeMap<String, i64> {
    let points = match &metric.data {
        Some(Data::Sum(sum)) => &sum.data_points,
        Some(Data::Gauge(gauge)) => &gauge.data_points,
        other => panic!("{other:?}"),
    };
    let number = |value: Option<number_data_point::Value>| match value {
        Some(number_data_point::Value::AsInt(number)) => number,
        other => panic!("{other:?}"),
    };
    let pool = |list: &[KeyValue]| attributes(list).remove("pool").unwrap_or_default();
    points.iter().map(|point| (pool(&point.attributes), number(point.value))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn measurements_of_every_kind_arrive_as_they_were_made_and_other_events_do_not() {
    let received = sent(async {
        for pool in ["a", "a", "b"] {
            measure!("turns", "counter", "{turn}", 2.0, pool);
            measure!("running", "up_down_counter", "{turn}", 1.0, pool);
            measure!("depth", "gauge", "{turn}", 7_u64, pool, absent = None::<&str>);
            measure!("time", "histogram", "s", 0.5, pool, error.type = "Crashed");
        }
        measure!("running", "up_down_counter", "{turn}", -1_i64, pool = "a");
        measure!("depth", "gauge", "{turn}", 3.0, pool = "b");
        measure!("nothing", "of no kind", "1", 1.0);
        measure!("", "counter", "1", 1.0);
        event!(target: "nexus::metrics", Level::DEBUG, metric.name = "valueless", metric.kind = "counter");
        tracing::error!(metric.name = "canary", metric.kind = "counter", metric.value = 1.0, "canary");
    })
    .await;
    assert!(!received.holds("canary") && !received.holds("nothing") && !received.holds("valueless"));
    let metrics: BTreeMap<_, _> =
        received.metrics().into_iter().map(|metric| (metric.name.clone(), metric)).collect();
    let pair = |a, b| BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
    assert_eq!(numbers(&metrics["turns"]), pair(4, 2));
    assert_eq!(numbers(&metrics["running"]), pair(1, 1));
    assert_eq!(numbers(&metrics["depth"]), pair(7, 3));
    assert!(matches!(&metrics["turns"].data, Some(Data::Sum(sum)) if sum.is_monotonic));
    assert!(matches!(&metrics["running"].data, Some(Data::Sum(sum)) if !sum.is_monotonic));
    let time = &metrics["time"];
    assert_eq!((time.unit.as_str(), time.description.as_str()), ("s", "What it is."));
    let Some(Data::Histogram(histogram)) = &time.data else { panic!("{time:?}") };
    let counts: Vec<_> = histogram.data_points.iter().map(|point| (point.count, point.sum)).collect();
    assert!(counts.contains(&(2, Some(1.0))) && counts.contains(&(1, Some(0.5))), "{counts:?}");
    assert_eq!(attributes(&histogram.data_points[0].attributes)["error.type"], "Crashed");
    let four = ["turns", "running", "depth", "time"];
    assert!(
        metrics.len() == 4 && four.iter().all(|name| metrics.contains_key(*name)),
        "{:?}",
        metrics.keys()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_span_that_was_adopted_is_in_the_trace_of_the_other_process() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let received = sent(async {
        for (name, traceparent) in [("adopted", parent), ("garbled", "00-xyz-1"), ("empty", "")] {
            let span = tracing::info_span!("x", otel.name = name);
            Exporter::adopt(&span, traceparent);
            span.in_scope(|| ());
        }
    })
    .await;
    let spans: BTreeMap<_, _> = received.spans().into_iter().map(|span| (span.name.clone(), span)).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(hex(&spans["adopted"].trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&spans["adopted"].parent_span_id), "00f067aa0ba902b7");
    for other in ["garbled", "empty"] {
        assert!(spans[other].parent_span_id.is_empty(), "{other}");
    }
}
