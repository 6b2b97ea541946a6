//! Keys that are somebody's as long as they are renewed.

use std::time::Duration;

use async_nats::jetstream::{kv::CreateErrorKind, message::PublishMessage};
use bytes::Bytes;

use crate::{
    error::FleetError,
    link::{Link, StoreError},
    protocol::key_subject,
};

/// How long a key stays without being renewed.
pub(crate) const LEASE_TIME: Duration = Duration::from_secs(30);
/// How often it is renewed.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(10);
/// After how long without a renewal its holder acts no more on it, by its own clock.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(20);

/// A key that is ours until [`LEASE_TIME`] after its last renewal.
#[derive(Debug)]
pub(crate) struct Lease {
    link: Link,
    bucket: &'static str,
    key: String,
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
        let store = link
            .jetstream
            .get_key_value(bucket)
            .await
            .map_err(|error| FleetError::NotSetUp { what: bucket.to_owned(), reason: error.to_string() })?;
        match store.create_with_ttl(&key, value, LEASE_TIME).await {
            Ok(revision) => Ok(Some(Self { link: link.clone(), bucket, key, revision })),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(FleetError::Unclear { reason: format!("the key {key} of {bucket}: {error}") }),
        }
    }

    /// Renews the key, with another value. `false`: it is not ours any more.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: it is not known whether it was renewed.
    pub(crate) async fn renew(&mut self, value: Bytes) -> Result<bool, FleetError> {
        // An update by the client's own call would end the key's time limit.
        let message = PublishMessage::build()
            .payload(value.clone())
            .expected_last_subject_sequence(self.revision)
            .ttl(LEASE_TIME);
        match self.link.store(&key_subject(self.bucket, &self.key), message).await {
            Ok(revision) => {
                self.revision = revision;
                Ok(true)
            }
            Err(StoreError::Superseded) => self.is_ours(&value).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the last value is one that we wrote without hearing that we had.
    async fn is_ours(&mut self, value: &Bytes) -> Result<bool, FleetError> {
        let store = self
            .link
            .jetstream
            .get_key_value(self.bucket)
            .await
            .map_err(|error| FleetError::Unclear { reason: error.to_string() })?;
        let entry = store
            .entry(&self.key)
            .await
            .map_err(|error| FleetError::Unclear { reason: error.to_string() })?;
        match entry {
            Some(entry) if entry.value == *value => {
                self.revision = entry.revision;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Gives the key back, unless it is another's by now.
    pub(crate) async fn release(self) {
        if let Ok(store) = self.link.jetstream.get_key_value(self.bucket).await
            && let Err(error) = store.delete_expect_revision(&self.key, Some(self.revision)).await
        {
            tracing::debug!(%error, key = self.key, "a key of the fleet ends by itself");
        }
    }
}
