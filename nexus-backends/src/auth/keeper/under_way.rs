//! The renewals of this process that have begun and are not over.

use std::sync::LazyLock;

use tokio::sync::watch;

/// How many there are.
static COUNT: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// One of them, as long as it lives.
#[derive(Debug)]
pub(super) struct UnderWay(());

impl UnderWay {
    /// One more begins.
    pub(super) fn begin() -> Self {
        COUNT.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        COUNT.send_modify(|count| *count -= 1);
    }
}

/// Waits until no renewal of this process is under way, by whichever keeper: for programs that are about to end.
///
/// A renewal goes on when whoever wanted it is gone, and ends with its runtime. One that is cut off between the
/// issuer's answer and the store costs the login, so a program that drops turns waits for this before it drops its
/// runtime. The issuer is given half a minute in all; whoever cannot wait so long sets a limit.
pub async fn finish_renewals() {
    // It fails only without a sender, and that one is never dropped.
    let _ = COUNT.subscribe().wait_for(|count| *count == 0).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_end_waits_for_the_last_of_them() {
        let (first, second) = (UnderWay::begin(), UnderWay::begin());
        let waiting = tokio::spawn(finish_renewals());
        drop(first);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(second);
        waiting.await.unwrap();
    }
}
