//! Counts ended spans, and the spans that a collector accepted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{SpanData, SpanExporter},
};

/// Counts the spans of one exporter. The SDK silently drops spans that do not fit into its queue or that the
/// collector rejects.
#[derive(Debug, Default)]
pub(crate) struct SpanCount {
    ended: AtomicU64,
    taken: AtomicU64,
    /// Spans that the collector rejected in requests that it otherwise accepted.
    rejected: AtomicU64,
}

impl SpanCount {
    pub(crate) fn ended(&self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rejected(&self, spans: u64) {
        self.rejected.fetch_add(spans, Ordering::Relaxed);
    }

    /// Returns the number of spans that did not reach the collector, and the number of all spans.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let [ended, taken, rejected] =
            [&self.ended, &self.taken, &self.rejected].map(|count| count.load(Ordering::Relaxed));
        // `saturating_sub`: a collector may report more rejected spans than it received.
        (ended.saturating_sub(taken.saturating_sub(rejected)), ended)
    }
}

/// Counts the spans that `next` sends.
#[derive(Debug)]
pub(crate) struct CountingExporter<E> {
    next: E,
    count: Arc<SpanCount>,
}

impl<E> CountingExporter<E> {
    pub(crate) fn new(next: E, count: Arc<SpanCount>) -> Self {
        Self { next, count }
    }
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        self.next.export(batch).await?;
        // Counted only after success, because the SDK does not send a failed batch again.
        self.count.taken.fetch_add(spans, Ordering::Relaxed);
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.next.shutdown_with_timeout(timeout)
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.next.shutdown()
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.next.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.next.set_resource(resource);
    }
}
