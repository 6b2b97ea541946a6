//! Counts the operations of this process that must not be cut off: refreshes, sign-ins and log-outs that have begun and
//! are not over.

use std::sync::LazyLock;

use tokio::sync::watch;

/// The number of operations in flight.
static COUNT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Guard of one operation in flight.
#[derive(Debug)]
pub(super) struct OperationGuard(());

impl OperationGuard {
    /// Counts one more operation.
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
    // Fails only without a sender, and the static one is never dropped.
    let _ = COUNT.subscribe().wait_for(|count| *count == 0).await;
}
