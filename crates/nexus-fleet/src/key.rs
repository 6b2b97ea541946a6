//! Keys of buckets, each changed only from the revision that was read.
//!
//! The client's own calls are not enough: its `create` over the mark of a key that ended forgets the time limit, its `update` ends
//! one, and its `get` may be answered by a server that lags behind.

use std::time::Duration;

use async_nats::{
    HeaderMap,
    header::NATS_MARKER_REASON,
    jetstream::{ErrorCode, message::PublishMessage, stream::LastRawMessageErrorKind},
};
use bytes::Bytes;

use crate::{
    error::FleetError,
    link::{API, FleetStoreError, Link},
    protocol::key_subject,
};

/// The header of a mark. Source: ADR-8 of NATS.
const OPERATION: &str = "KV-Operation";
/// The mark of a key that was deleted. Source: ADR-8 of NATS.
const DELETED: &str = "DEL";

/// Key of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketKey {
    pub(crate) bucket: &'static str,
    pub(crate) name: String,
}

/// What a key has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyState {
    /// Of the last change, also of the one that ended the key. 0: there is no trace of one.
    pub(crate) revision: u64,
    /// `None`: the key is not there.
    pub(crate) value: Option<Bytes>,
}

impl BucketKey {
    pub(crate) fn new(bucket: &'static str, name: impl Into<String>) -> Self {
        Self { bucket, name: name.into() }
    }

    /// What the key has, by the server that leads: another may lag behind.
    ///
    /// # Errors
    ///
    /// [`FleetError::Forbidden`], [`FleetError::NotSetUp`], [`FleetError::Unclear`]
    pub(crate) async fn read(&self, link: &Link) -> Result<KeyState, FleetError> {
        let name = format!("KV_{}", self.bucket);
        let stream = link.stream(&name).await?;
        let subject = self.subject();
        let found = stream.get_last_raw_message_by_subject(&subject);
        match link.permitted(&format!("{API}STREAM.MSG.GET.{name}"), found).await? {
            Ok(message) => {
                let value = (!is_mark(&message.headers)).then_some(message.payload);
                Ok(KeyState { revision: message.sequence, value })
            }
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok(KeyState::default()),
                LastRawMessageErrorKind::JetStream(fault)
                    if fault.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    Err(FleetError::NotSetUp { what: self.bucket.to_owned(), reason: error.to_string() })
                }
                _ => Err(self.unclear(&error)),
            },
        }
    }

    /// Gives the key another value, if `expected` is its last revision. `Ok` is the new one; `None`: another change came first.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: it is not known whether it was changed.
    pub(crate) async fn write(
        &self,
        link: &Link,
        expected: u64,
        value: Bytes,
        time: Option<Duration>,
    ) -> Result<Option<u64>, FleetError> {
        let message = PublishMessage::build().payload(value).expected_last_subject_sequence(expected);
        let message = match time {
            Some(time) => message.ttl(time),
            None => message,
        };
        self.store(link, message).await
    }

    /// Ends the key, as [`write`](Self::write) changes it.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(crate) async fn remove(&self, link: &Link, expected: u64) -> Result<Option<u64>, FleetError> {
        let message =
            PublishMessage::build().header(OPERATION, DELETED).expected_last_subject_sequence(expected);
        self.store(link, message).await
    }

    async fn store(&self, link: &Link, message: PublishMessage) -> Result<Option<u64>, FleetError> {
        match link.store(&self.subject(), message).await {
            Ok(revision) => Ok(Some(revision)),
            Err(FleetStoreError::Superseded) => Ok(None),
            Err(FleetStoreError::NoStream) => Err(FleetError::NotSetUp {
                what: self.bucket.to_owned(),
                reason: "no stream takes its keys".to_owned(),
            }),
            Err(FleetStoreError::Unclear(reason)) => Err(self.unclear(&reason)),
            Err(error) => Err(error.into()),
        }
    }

    fn subject(&self) -> String {
        key_subject(self.bucket, &self.name)
    }

    fn unclear(&self, reason: &dyn std::fmt::Display) -> FleetError {
        FleetError::Unclear { reason: format!("the key {} of {}: {reason}", self.name, self.bucket) }
    }
}

/// Whether a message says that its key ended.
pub(crate) fn is_mark(headers: &HeaderMap) -> bool {
    headers.get(NATS_MARKER_REASON).is_some()
        || headers.get(OPERATION).is_some_and(|operation| operation.as_str() != "PUT")
}
