//! Counts the operations of this process that must not be interrupted: running refreshes, sign-ins and log-outs.

use std::sync::LazyLock;

use tokio::sync::watch;

/// Number of operations in flight.
static COUNT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Guard of one operation in flight.
#[derive(Debug)]
pub(super) struct OperationGuard(());

impl OperationGuard {
    /// Increments the count. Dropping the guard decrements it.
    pub(super) fn begin() -> Self {
        COUNT.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for OperationGuard {
    fn drop(&mut self) {
        COUNT.send_modify(|count| *count -= 1);
    }
}

/// Waits until no operation of this process is in flight.
pub(super) async fn none_in_flight() {
    // `wait_for` fails only if the sender is dropped, and a static one never is.
    let _ = COUNT.subscribe().wait_for(|count| *count == 0).await;
}
