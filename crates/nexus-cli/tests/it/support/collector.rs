//! A collector that takes everything, and what it was sent.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::{NumberDataPoint, metric::Data, number_data_point},
    trace::v1::Span,
};
use prost::Message as _;

/// The attributes of a figure.
pub(crate) type Figure = BTreeSet<(String, String)>;

/// A path, and what was sent there.
type Request = (String, Vec<u8>);

/// What a collector was sent.
#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<Vec<Request>>>);

impl Received {
    fn of(&self, path: &str) -> Vec<Vec<u8>> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|(known, _)| known == path).map(|(_, body)| body.clone()).collect()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self.of("/v1/traces");
        let requests = requests.iter().map(|body| ExportTraceServiceRequest::decode(&**body).unwrap());
        let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|spans| spans.scope_spans);
        scopes.flat_map(|scope| scope.spans).collect()
    }

    /// Every figure as it was sent last by each process, summed over them: counts, levels, and the counts of histograms.
    pub(crate) fn figures(&self) -> BTreeMap<(String, Figure), u64> {
        // What a process sends is cumulative since its start, which tells processes apart.
        let mut last = BTreeMap::new();
        for body in self.of("/v1/metrics") {
            let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
            let scopes = request.resource_metrics.into_iter().flat_map(|metrics| metrics.scope_metrics);
            for metric in scopes.flat_map(|scope| scope.metrics) {
                let mut see = |attributes: &[KeyValue], start: u64, value: i64| {
                    last.insert((metric.name.clone(), figure(attributes), start), value);
                };
                match &metric.data {
                    Some(Data::Sum(sum)) => {
                        let points = sum.data_points.iter();
                        points.for_each(|point| {
                            see(&point.attributes, point.start_time_unix_nano, number(point));
                        });
                    }
                    // It is of one process, and replaced.
                    Some(Data::Gauge(gauge)) => {
                        gauge.data_points.iter().for_each(|point| see(&point.attributes, 0, number(point)));
                    }
                    Some(Data::Histogram(histogram)) => histogram.data_points.iter().for_each(|point| {
                        see(
                            &point.attributes,
                            point.start_time_unix_nano,
                            i64::try_from(point.count).unwrap(),
                        );
                    }),
                    other => panic!("{}: {other:?}", metric.name),
                }
            }
        }
        let mut sums: BTreeMap<_, i64> = BTreeMap::new();
        for ((name, figure, _), value) in last {
            *sums.entry((name, figure)).or_default() += value;
        }
        sums.into_iter().map(|(key, value)| (key, u64::try_from(value).unwrap())).collect()
    }

    /// Whether `word` is in anything that was sent.
    pub(crate) fn holds(&self, word: &str) -> bool {
        let kept = self.0.lock().unwrap();
        kept.iter().any(|(_, body)| body.windows(word.len()).any(|window| window == word.as_bytes()))
    }
}

fn figure(attributes: &[KeyValue]) -> Figure {
    let text = |attribute: &KeyValue| match attribute.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{}: {other:?}", attribute.key),
    };
    attributes.iter().map(|attribute| (attribute.key.clone(), text(attribute))).collect()
}

fn number(point: &NumberDataPoint) -> i64 {
    match point.value {
        Some(number_data_point::Value::AsInt(number)) => number,
        other => panic!("{other:?}"),
    }
}

/// Starts one, and returns its base URL.
pub(crate) fn collector() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let kept = received.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let kept = kept.clone();
            std::thread::spawn(move || serve(stream, &kept));
        }
    });
    (url, received)
}

fn serve(mut stream: TcpStream, kept: &Received) {
    let mut read = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut piece) {
        read.extend_from_slice(&piece[..count]);
        let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if read.len() < end + 4 + length.unwrap_or(0_usize) {
            continue;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        kept.0.lock().unwrap().push((path, read.split_off(end + 4)));
        read.clear();
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
