//! Refreshes that a program awaits before it ends.

use super::{in_flight::none_in_flight, shared::SharedState};

/// Waits until no refresh of this process is in flight, from any credential manager, and tries once more to
/// write refreshed logins whose write failed. For programs that are about to end.
///
/// A refresh continues after the future that began it is dropped, but ends with its runtime. A refresh that is
/// interrupted between the issuer's answer and the store loses the login, so a program that drops turns awaits
/// this before it drops its runtime. A refresh takes up to 45 seconds for the issuer and 30 for the store; a
/// sign-in or a log-out waits up to 100 seconds for another process's lock. A program that cannot wait that
/// long sets its own timeout.
///
/// A refreshed login that still cannot be written is lost with the process, and logged as an error.
pub async fn finish_refreshes() {
    none_in_flight().await;
    for shared in SharedState::all() {
        shared.save().await;
    }
    // Another task may have taken a pending write out while `save` ran.
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
