//! Watches the keys of a bucket: returns their values, and then each change.
//!
//! The client's own watch needs too many permissions. After a lost connection or server it deletes its consumer by name. If the
//! account may not delete consumers, it retries for ever without an error. It also makes the server wait for acknowledgements that
//! need a permission. This watch ends whenever it may have missed a change, and its user opens a new one.

use std::{collections::BTreeSet, sync::atomic::Ordering, time::Duration};

use async_nats::{
    StatusCode, Subscriber,
    header::NATS_LAST_CONSUMER,
    jetstream::{
        self,
        consumer::{AckPolicy, DeliverPolicy, push},
    },
};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time::Instant;

use crate::{
    bucket_key::{is_mark, key_of_subject, key_subject},
    connection::{API, NatsConnection},
    error::NatsError,
};

/// Time between two heartbeats of the server while no key changes.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Time without a message after which the consumer counts as lost.
const SILENCE: Duration = Duration::from_secs(12);
/// Time between two checks if the connection was replaced.
const LOOK: Duration = Duration::from_secs(1);
/// Time after which the server removes a consumer without a subscriber.
const GONE: Duration = Duration::from_secs(30);

/// Watch over the keys of a bucket.
#[derive(Debug)]
pub struct BucketWatch {
    nats: NatsConnection,
    bucket: &'static str,
    subscriber: Subscriber,
    /// Number of the connection. Each reconnect increments the number.
    connection: u64,
    received_at: Instant,
    /// Number of the last received message of this watch.
    received: u64,
    /// Keys that existed at the start, until all of them were received.
    present: Option<BTreeSet<String>>,
    /// True once all keys that existed at the start were received.
    is_complete: bool,
}

/// One message of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketChange {
    /// A key has a new value, or ended.
    Key {
        /// Name of the key.
        key: String,
        /// Revision of the change.
        revision: u64,
        /// The new value. `None` if the key ended.
        value: Option<Bytes>,
    },
    /// All keys that existed when the watch was opened were returned. These are their names.
    Present(BTreeSet<String>),
}

impl BucketWatch {
    /// Opens a watch over the keys that match a pattern.
    pub async fn open(nats: &NatsConnection, bucket: &'static str, keys: &str) -> Result<Self, NatsError> {
        // Before the subscription, so that `next` notices every later reconnect.
        let connection = connection(nats);
        let inbox = nats.client().new_inbox();
        // Subscribe first, because the consumer delivers as soon as it exists.
        let subscriber = nats.client().subscribe(inbox.clone()).await.map_err(NatsError::unclear)?;
        let config = push::Config {
            deliver_subject: inbox,
            filter_subject: key_subject(bucket, keys),
            deliver_policy: DeliverPolicy::LastPerSubject,
            // Acknowledgements would need a permission of their own.
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            idle_heartbeat: HEARTBEAT,
            inactive_threshold: GONE,
            // The watch is opened again after any loss, so its consumer needs neither copies nor a file.
            num_replicas: 1,
            memory_storage: true,
            ..push::Config::default()
        };
        let stream = format!("KV_{bucket}");
        let subject = format!("{API}CONSUMER.CREATE.{stream}");
        let consumer = nats.jetstream().create_consumer_on_stream(config, stream);
        let consumer = nats.permitted(&subject, consumer).await?.map_err(NatsError::unclear)?;
        let info = consumer.cached_info();
        Ok(Self {
            nats: nats.clone(),
            bucket,
            subscriber,
            connection,
            received_at: Instant::now(),
            received: 0,
            present: Some(BTreeSet::new()),
            is_complete: info.num_pending == 0 && info.delivered.consumer_sequence == 0,
        })
    }

    /// Returns the next change. Dropping the future loses no change.
    ///
    /// # Errors
    ///
    /// [`NatsError::Unclear`]: a change may have been missed, and the watch has ended.
    pub async fn next(&mut self) -> Result<BucketChange, NatsError> {
        self.receive().await.map_err(NatsError::unclear)
    }

    async fn receive(&mut self) -> Result<BucketChange, String> {
        loop {
            if self.is_complete
                && let Some(keys) = self.present.take()
            {
                return Ok(BucketChange::Present(keys));
            }
            let message = match tokio::time::timeout(LOOK, self.subscriber.next()).await {
                Ok(message) => message.ok_or("the connection ended")?,
                // The server repeats nothing that it sent during the interruption.
                Err(_elapsed) if connection(&self.nats) != self.connection => {
                    return Err("the connection is another one".to_owned());
                }
                Err(_elapsed) if self.received_at.elapsed() > SILENCE => {
                    return Err("the servers are silent".to_owned());
                }
                Err(_elapsed) => continue,
            };
            self.received_at = Instant::now();
            match message.status {
                None => return self.take(message),
                Some(StatusCode::IDLE_HEARTBEAT) => {
                    let last = message.headers.as_ref().and_then(|headers| headers.get(NATS_LAST_CONSUMER));
                    // A heartbeat contains the number of the last message. So it reveals a loss even if nothing
                    // follows.
                    if last.is_none_or(|last| last.as_str() != self.received.to_string()) {
                        return Err("a change was missed".to_owned());
                    }
                }
                Some(status) => return Err(format!("the servers end it: {status}")),
            }
        }
    }

    fn take(&mut self, message: async_nats::Message) -> Result<BucketChange, String> {
        let message = jetstream::Message { message, context: self.nats.jetstream().clone() };
        let info = message.info().map_err(|error| error.to_string())?;
        if info.consumer_sequence != self.received + 1 {
            return Err("a change was missed".to_owned());
        }
        let revision = info.stream_sequence;
        let is_last = info.pending == 0;
        self.received = info.consumer_sequence;
        let key = key_of_subject(self.bucket, &message.subject).ok_or("another key")?.to_owned();
        let is_there = !message.headers.as_ref().is_some_and(is_mark);
        if let Some(present) = &mut self.present {
            if is_there {
                present.insert(key.clone());
            } else {
                present.remove(&key);
            }
            self.is_complete = is_last;
        }
        Ok(BucketChange::Key { key, revision, value: is_there.then_some(message.message.payload) })
    }
}

/// Returns a number that is different for each connection.
fn connection(nats: &NatsConnection) -> u64 {
    nats.client().statistics().connects.load(Ordering::Relaxed)
}
