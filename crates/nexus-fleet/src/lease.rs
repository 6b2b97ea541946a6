//! Keys that are somebody's as long as they are renewed.

use std::time::Duration;

use bytes::Bytes;
use tokio::{sync::watch, time::Instant};

use crate::{error::FleetError, key::BucketKey, link::Link};

/// How long a key stays without being renewed.
pub(crate) const LEASE_TIME: Duration = Duration::from_secs(30);
/// How often it is renewed.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(10);
/// After how long without a renewal its holder acts no more on it, by its own clock.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(20);

/// Time until which its holder may act on a lease, by its own clock. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Tenure(watch::Sender<Instant>);

impl Tenure {
    /// Held from the moment on in which the server was asked.
    pub(crate) fn since(asked_at: Instant) -> Self {
        Self(watch::channel(asked_at).0)
    }

    /// It was renewed: the server was asked then.
    pub(crate) fn renewed(&self, asked_at: Instant) {
        self.0.send_replace(asked_at);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.0.borrow().elapsed() < HELD_FOR
    }

    /// Waits until it is held.
    pub(crate) async fn held(&self) {
        let mut renewed = self.0.subscribe();
        // This has the other end.
        let _ = renewed.wait_for(|asked_at| asked_at.elapsed() < HELD_FOR).await;
    }
}

/// A key that is ours until [`LEASE_TIME`] after its last renewal.
#[derive(Debug)]
pub(crate) struct Lease {
    link: Link,
    key: BucketKey,
    revision: u64,
}

impl Lease {
    /// Takes a key, if nobody has it.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: it is not known whether the key was taken; it ends by itself then.
    pub(crate) async fn take(
        link: &Link,
        bucket: &'static str,
        key: String,
        value: Bytes,
    ) -> Result<Option<Self>, FleetError> {
        let key = BucketKey::new(bucket, key);
        let found = key.read(link).await?;
        if found.value.is_some() {
            return Ok(None);
        }
        let taken = key.write(link, found.revision, value, Some(LEASE_TIME)).await?;
        Ok(taken.map(|revision| Self { link: link.clone(), key, revision }))
    }

    /// Renews the key, with another value; takes it again if it has ended meanwhile. `is_ours` tells which values are of this
    /// holder. `false`: it is another's.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: it is not known whether it was renewed.
    pub(crate) async fn renew(
        &mut self,
        value: Bytes,
        is_ours: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<bool, FleetError> {
        // An update by the client's own call would end the key's time limit.
        match self.key.write(&self.link, self.revision, value.clone(), Some(LEASE_TIME)).await? {
            Some(revision) => {
                self.revision = revision;
                Ok(true)
            }
            None => self.regain(value, is_ours).await,
        }
    }

    /// Goes on from a value that we wrote without hearing that we had, or takes the key anew if it has ended.
    async fn regain(
        &mut self,
        value: Bytes,
        is_ours: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<bool, FleetError> {
        let found = self.key.read(&self.link).await?;
        if found.value.is_some_and(|found| !is_ours(&found)) {
            return Ok(false);
        }
        // Also where it is ours: its time runs since that write, which may be long ago.
        match self.key.write(&self.link, found.revision, value, Some(LEASE_TIME)).await? {
            Some(revision) => {
                self.revision = revision;
                Ok(true)
            }
            // Another look tells whose it is.
            None => Err(FleetError::Unclear { reason: format!("who has the key {}", self.key.name) }),
        }
    }

    /// Gives the key back, unless it is another's by now.
    pub(crate) async fn release(self) {
        if let Err(error) = self.key.remove(&self.link, self.revision).await {
            tracing::debug!(%error, key = self.key.name, "a key of the fleet ends by itself");
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_was_not_renewed_is_not_held_from_the_moment_on_in_which_its_time_is_over() {
        let held = Tenure::since(Instant::now());
        tokio::time::advance(HELD_FOR - Duration::from_millis(1)).await;
        assert!(held.is_held() && held.held().now_or_never().is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!held.is_held() && held.held().now_or_never().is_none());
        // An answer that took too long renews nothing.
        held.renewed(Instant::now() - HELD_FOR);
        assert!(!held.is_held());
        held.renewed(Instant::now());
        assert!(held.is_held() && held.held().now_or_never().is_some());
    }
}
