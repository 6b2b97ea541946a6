//! A collector: an HTTP server that decodes what it is sent by the messages of `opentelemetry-proto`.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt as _, Full};
use hyper::{Response, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    metrics::v1::Metric,
    trace::v1::Span,
};
use prost::Message as _;
use tokio::net::TcpListener;

/// What was sent to a collector.
#[derive(Clone, Default)]
pub(crate) struct Received(Arc<Mutex<Vec<Request>>>);

/// A path, and what was sent there.
type Request = (String, Vec<u8>);

impl Received {
    /// Starts a collector, and returns its base URL.
    pub(crate) async fn start() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Self::default();
        let kept = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let kept = kept.clone();
                let service = service_fn(move |request| take(kept.clone(), request));
                let builder = hyper::server::conn::http1::Builder::new();
                tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
            }
        });
        (received, url)
    }

    fn bodies(&self, path: &str) -> Vec<Vec<u8>> {
        let kept = self.0.lock().unwrap();
        kept.iter().filter(|(known, _)| known == path).map(|(_, body)| body.clone()).collect()
    }

    /// The spans, in the order in which they began.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let requests = self
            .bodies("/v1/traces")
            .into_iter()
            .map(|body| ExportTraceServiceRequest::decode(&*body).unwrap());
        let scopes = requests.flat_map(|request| request.resource_spans).flat_map(|spans| spans.scope_spans);
        let mut spans: Vec<Span> = scopes.flat_map(|scope| scope.spans).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// The metrics.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let requests = self
            .bodies("/v1/metrics")
            .into_iter()
            .map(|body| ExportMetricsServiceRequest::decode(&*body).unwrap());
        let scopes =
            requests.flat_map(|request| request.resource_metrics).flat_map(|metrics| metrics.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    }

    /// Whether `word` is in anything that was sent.
    pub(crate) fn holds(&self, word: &str) -> bool {
        let kept = self.0.lock().unwrap();
        kept.iter().any(|(_, body)| body.windows(word.len()).any(|window| window == word.as_bytes()))
    }
}

async fn take(
    kept: Received,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<&'static [u8]>>, Infallible> {
    let path = request.uri().path().to_owned();
    let is_protobuf =
        request.headers().get("content-type").is_some_and(|kind| kind == "application/x-protobuf");
    let body = request.into_body().collect().await.map(|body| body.to_bytes().to_vec());
    match body {
        Ok(body) if is_protobuf => kept.0.lock().unwrap().push((path, body)),
        _ => kept.0.lock().unwrap().push(("unreadable".to_owned(), Vec::new())),
    }
    Ok(Response::builder().header("content-type", "application/x-protobuf").body(Full::default()).unwrap())
}
