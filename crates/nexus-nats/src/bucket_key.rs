//! Keys of buckets that change only from the revision that was read.
//!
//! The client's own methods are not enough. Its `create` over the mark of an ended key drops the time limit, and its `update` ends
//! the time limit. Its `get` may be answered by a server whose data is outdated.

use std::time::Duration;

use async_nats::{HeaderMap, header::NATS_MARKER_REASON, jetstream::message::PublishMessage};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::time::timeout;

use crate::{
    connection::{API, NatsConnection},
    error::{NatsError, NatsStoreError},
};

/// Header of a message that marks the end of a key. Source: ADR-8 of NATS.
const OPERATION: &str = "KV-Operation";
/// Header value for a deleted key. Source: ADR-8 of NATS.
const DELETED: &str = "DEL";

/// Longest wait for the reason why no server takes a key. Shorter than the interval in which leases are renewed.
const REASON_TIME: Duration = Duration::from_secs(1);
/// Number of keys that are read concurrently.
const READS_AT_ONCE: usize = 32;

/// Key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketKey {
    /// Name of the bucket.
    pub bucket: &'static str,
    /// Name of the key.
    pub name: String,
}

/// Value and revision of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyState {
    /// Revision of the last change, including a deletion. 0 if the bucket has no trace of the key.
    pub revision: u64,
    /// Value of the key. `None` if the key does not exist.
    pub value: Option<Bytes>,
}

impl NatsConnection {
    /// Returns the keys of a bucket that `is_wanted` accepts, with their values. Leaves out a key that ends meanwhile.
    pub async fn bucket_values(
        &self,
        bucket: &str,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, Bytes)>, NatsError> {
        let stream = format!("KV_{bucket}");
        let is_ours = |subject: &str| subject.starts_with(API) && subject.contains(&stream);
        let read = async {
            let store = self.jetstream().get_key_value(bucket).await;
            let store = store.map_err(|error| NatsError::of_absence(bucket, &error))?;
            let keys = store.keys().await.map_err(NatsError::unclear)?;
            let keys: Vec<String> = keys.try_collect().await.map_err(NatsError::unclear)?;
            let values = futures::stream::iter(keys.into_iter().filter(|key| is_wanted(key)))
                .map(|key| {
                    let store = &store;
                    async move {
                        let value = store.get(&key).await.map_err(NatsError::unclear)?;
                        Ok(value.map(|value| (key, value)))
                    }
                })
                .buffer_unordered(READS_AT_ONCE);
            values.try_filter_map(|value| std::future::ready(Ok(value))).try_collect().await
        };
        self.permitted_if(is_ours, read).await?
    }
}

impl BucketKey {
    /// Creates the name of a key without a request to the server.
    pub fn new(bucket: &'static str, name: impl Into<String>) -> Self {
        Self { bucket, name: name.into() }
    }

    /// Reads the key from the stream's leader, because other servers may have outdated data.
    pub async fn read(&self, connection: &NatsConnection) -> Result<KeyState, NatsError> {
        let stream = connection.bucket_stream(self.bucket).await?;
        match stream.last(&self.subject()).await {
            Ok(Some(message)) => {
                let value = (!is_mark(&message.headers)).then_some(message.payload);
                Ok(KeyState { revision: message.sequence, value })
            }
            Ok(None) => Ok(KeyState::default()),
            Err(NatsError::Unclear { reason } | NatsError::NoMajority { reason }) => {
                Err(self.unclear(&reason))
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the value if `expected` is the key's last revision, and returns the new revision. Returns `None` if another change came
    /// first.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: it is unknown whether the key was changed.
    pub async fn write(
        &self,
        connection: &NatsConnection,
        expected: u64,
        value: Bytes,
        time_limit: Option<Duration>,
    ) -> Result<Option<u64>, NatsError> {
        // The server compares the revision itself, so only one of several writers succeeds.
        let message = PublishMessage::build().payload(value).expected_last_subject_sequence(expected);
        let message = match time_limit {
            Some(time) => message.ttl(time),
            None => message,
        };
        self.store(connection, message).await
    }

    /// Ends the key under the same conditions as [`write`](Self::write).
    pub async fn remove(&self, connection: &NatsConnection, expected: u64) -> Result<Option<u64>, NatsError> {
        let message =
            PublishMessage::build().header(OPERATION, DELETED).expected_last_subject_sequence(expected);
        self.store(connection, message).await
    }

    async fn store(
        &self,
        connection: &NatsConnection,
        message: PublishMessage,
    ) -> Result<Option<u64>, NatsError> {
        match connection.store(&self.subject(), message).await {
            Ok(revision) => Ok(Some(revision)),
            Err(NatsStoreError::Superseded) => Ok(None),
            Err(NatsStoreError::NoStream) => Err(self.without_stream(connection).await),
            Err(NatsStoreError::Unclear(reason)) => Err(self.unclear(&reason)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the reason why no server takes the keys of the bucket.
    async fn without_stream(&self, connection: &NatsConnection) -> NatsError {
        let info = async { connection.bucket_stream(self.bucket).await?.info().await };
        match timeout(REASON_TIME, info).await {
            Ok(Err(NatsError::Forbidden { subject })) => NatsError::NotSetUp {
                what: self.bucket.to_owned(),
                reason: format!("no server takes its keys, and {subject} may not be used to find out why"),
            },
            Ok(Err(NatsError::Unclear { reason } | NatsError::NoMajority { reason })) => {
                self.unclear(&reason)
            }
            Ok(Err(error)) => error,
            // The bucket exists, so its servers are electing a leader.
            Ok(Ok(_)) | Err(_) => self.unclear("no server leads the bucket"),
        }
    }

    fn subject(&self) -> String {
        key_subject(self.bucket, &self.name)
    }

    fn unclear(&self, reason: &str) -> NatsError {
        NatsError::unclear(format!("the key {} of {}: {reason}", self.name, self.bucket))
    }
}

/// Returns the subject behind a key of a bucket.
pub fn key_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// Returns the key that a [`key_subject`] belongs to.
pub fn key_of_subject<'a>(bucket: &str, subject: &'a str) -> Option<&'a str> {
    subject.strip_prefix("$KV.")?.strip_prefix(bucket)?.strip_prefix('.')
}

/// Returns true if a message marks the end of its key.
pub(crate) fn is_mark(headers: &HeaderMap) -> bool {
    headers.get(NATS_MARKER_REASON).is_some()
        || headers.get(OPERATION).is_some_and(|operation| operation.as_str() != "PUT")
}
