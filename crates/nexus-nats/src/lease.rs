//! Key-value leases: owned by one process and renewed until dropped.

use std::time::Duration;

use bytes::Bytes;
use tokio::{sync::watch, time::Instant};

use crate::{bucket_key::BucketKey, connection::NatsConnection, error::NatsError};

/// Time until a key that is not renewed ends.
pub const LEASE_TIME: Duration = Duration::from_secs(30);
/// Time between two renewals by the owner.
pub const RENEW_EVERY: Duration = Duration::from_secs(10);
/// Time after the last renewal in which the owner may act on a lease, by its own clock. Shorter than [`LEASE_TIME`].
pub const TENURE_TIME: Duration = Duration::from_secs(20);

/// Right of an owner to act on its lease, by its own clock. Clones share it.
#[derive(Clone, Debug)]
pub struct Tenure(watch::Sender<Instant>);

impl Tenure {
    /// Starts the tenure at the moment when the lease was requested.
    pub fn since(asked_at: Instant) -> Self {
        Self(watch::channel(asked_at).0)
    }

    /// Records a renewal that was requested at this moment.
    pub fn renewed(&self, asked_at: Instant) {
        self.0.send_replace(asked_at);
    }

    /// Returns true while the owner may act.
    pub fn is_active(&self) -> bool {
        self.0.borrow().elapsed() < TENURE_TIME
    }

    /// Waits until the owner may act.
    pub async fn active(&self) {
        let mut renewed = self.0.subscribe();
        // `self` owns the sender, so the channel cannot close.
        let _ = renewed.wait_for(|asked_at| asked_at.elapsed() < TENURE_TIME).await;
    }
}

/// A key that belongs to its owner until [`LEASE_TIME`] after the last renewal.
#[derive(Debug)]
pub struct KeyLease {
    connection: NatsConnection,
    key: BucketKey,
    revision: u64,
}

impl KeyLease {
    /// Takes a key. Returns `None` if another owner has it.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: it is unknown whether the key was taken. A key that was taken ends by itself.
    pub async fn take(
        connection: &NatsConnection,
        bucket: &'static str,
        key: String,
        value: Bytes,
    ) -> Result<Option<Self>, NatsError> {
        let key = BucketKey::new(bucket, key);
        let found = key.read(connection).await?;
        if found.value.is_some() {
            return Ok(None);
        }
        let taken = key.write(connection, found.revision, value, Some(LEASE_TIME)).await?;
        Ok(taken.map(|revision| Self { connection: connection.clone(), key, revision }))
    }

    /// Renews the key with a new value, or takes it again if it has ended meanwhile. Returns false if another owner has
    /// it.
    ///
    /// `is_ours` recognises the values that this owner wrote.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: it is unknown whether the key was renewed.
    pub async fn renew(
        &mut self,
        value: Bytes,
        is_ours: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<bool, NatsError> {
        // Do not use the client's `update`, which would end the key's time limit.
        match self.key.write(&self.connection, self.revision, value.clone(), Some(LEASE_TIME)).await? {
            Some(revision) => {
                self.revision = revision;
                Ok(true)
            }
            None => self.regain(value, is_ours).await,
        }
    }

    /// Continues after a write whose answer was lost, or takes the key again if it has ended.
    async fn regain(
        &mut self,
        value: Bytes,
        is_ours: impl Fn(&[u8]) -> bool + Send,
    ) -> Result<bool, NatsError> {
        let found = self.key.read(&self.connection).await?;
        if found.value.is_some_and(|found| !is_ours(&found)) {
            return Ok(false);
        }
        // Write even if the key is already ours: its time limit runs from that earlier write, which may be long ago.
        match self.key.write(&self.connection, found.revision, value, Some(LEASE_TIME)).await? {
            Some(revision) => {
                self.revision = revision;
                Ok(true)
            }
            // Another change came first. The next renewal finds the owner.
            None => Err(NatsError::unclear(format!("who has the key {}", self.key.name))),
        }
    }

    /// Ends the key, unless another owner has taken it.
    pub async fn release(self) {
        if let Err(error) = self.key.remove(&self.connection, self.revision).await {
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
        let tenure = Tenure::since(Instant::now());
        tokio::time::advance(TENURE_TIME - Duration::from_millis(1)).await;
        assert!(tenure.is_active() && tenure.active().now_or_never().is_some());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!tenure.is_active() && tenure.active().now_or_never().is_none());
        // An answer that took too long renews nothing.
        tenure.renewed(Instant::now() - TENURE_TIME);
        assert!(!tenure.is_active());
        tenure.renewed(Instant::now());
        assert!(tenure.is_active() && tenure.active().now_or_never().is_some());
    }
}
