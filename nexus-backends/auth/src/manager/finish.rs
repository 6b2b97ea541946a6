//! Waiting for refreshes before a program ends.

use super::{in_flight::none_in_flight, shared::SharedState};

/// Waits until no operation of any credential manager in this process is in flight, and retries failed writes of
/// refreshed logins once. Programs call it before they end.
///
/// A refresh continues after the future that began it is dropped, but stops with its runtime. If it stops between the
/// issuer's response and the store, the login is lost. So a program that drops turns awaits this function before it
/// drops its runtime.
///
/// A refresh takes up to 45 seconds for the issuer and 30 for the store. A sign-in or a log-out waits up to 100 seconds
/// for another process's lock. A program that cannot wait that long sets its own timeout.
///
/// A refreshed login that still cannot be written is logged as an error, and lost with the process.
pub async fn finish_refreshes() {
    none_in_flight().await;
    for shared in SharedState::all() {
        shared.save().await;
    }
    // Another task may have taken a pending write while `save` ran.
    none_in_flight().await;
    for (login, place) in SharedState::all().iter().filter_map(|shared| shared.pending_write()) {
        tracing::error!(
            login,
            place,
            "a refreshed login could not be written; it is lost if this process ends now"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::in_flight::OperationGuard;

    #[tokio::test]
    async fn an_end_waits_for_the_last_of_them() {
        let (first, second) = (OperationGuard::begin(), OperationGuard::begin());
        let waiting = tokio::spawn(finish_refreshes());
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
