//! Waiting for optional times and optional work.

use futures::future::BoxFuture;
use tokio::time::Instant;

/// Waits until a time; for ever without a time.
pub(crate) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for work; for ever without work. The caller removes finished work.
pub(crate) async fn done<T>(work: &mut Option<BoxFuture<'static, T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
