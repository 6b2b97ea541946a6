//! The renewals of this process that have begun and are not over.

use std::sync::LazyLock;

use tokio::sync::watch;

use super::shared::SharedState;

/// How many there are.
static COUNT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// One of them, as long as it lives.
#[derive(Debug)]
pub(super) struct InFlight(());

impl InFlight {
    /// One more begins.
    pub(super) fn begin() -> Self {
        COUNT.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        COUNT.send_modify(|count| *count -= 1);
    }
}

/// Waits until no renewal of this process is under way, by whichever credential manager, and tries a last time to write what could
/// not be written before: for programs that are about to end.
///
/// A renewal goes on when whoever wanted it is gone, and ends with its runtime. One that is cut off between the
/// issuer's answer and the store costs the login, so a program that drops turns waits for this before it drops its
/// runtime. The issuer is given 45 seconds, and its login's store half a minute at worst; a sign-in or a log-out waits
/// for a login that another process has for 100 seconds. Whoever cannot wait so long sets a limit.
///
/// A renewed login that still cannot be written is lost with the process, which is logged as an error.
pub async fn finish_refreshes() {
    none_in_flight().await;
    for shared in SharedState::all() {
        shared.save().await;
    }
    // Somebody else may have been at work on one of them.
    none_in_flight().await;
    for (login, place) in SharedState::all().iter().filter_map(|shared| shared.pending_write()) {
        tracing::error!(
            login,
            place,
            "a renewed login could not be written, and is lost if this process ends now"
        );
    }
}

async fn none_in_flight() {
    // It fails only without a sender, and that one is never dropped.
    let _ = COUNT.subscribe().wait_for(|count| *count == 0).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_waits_for_the_last_of_them() {
        let (first, second) = (InFlight::begin(), InFlight::begin());
        let waiting = tokio::spawn(finish_refreshes());
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
