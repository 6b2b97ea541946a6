//! What the keys of a bucket have, and each change.
//!
//! The client's own watch asks for too much: after a lost connection or a lost server it deletes its consumer by name, and where it may
//! not delete those of others it tries for ever, without a word. And it has the server wait for answers that need a permission. This
//! one ends whenever it may have missed something, and is opened anew.

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
    error::FleetError,
    key::is_mark,
    link::{API, Link},
    protocol::{key_of_subject, key_subject},
};

/// How often the server says that it is there, if nothing else is said.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// After how long without a word the consumer counts as lost.
const SILENCE: Duration = Duration::from_secs(12);
/// How often it is looked whether the connection is another one.
const LOOK: Duration = Duration::from_secs(1);
/// How long the consumer stays when nobody listens.
const GONE: Duration = Duration::from_secs(30);

/// Watch over the keys of a bucket.
#[derive(Debug)]
pub(super) struct BucketWatch {
    link: Link,
    bucket: &'static str,
    subscriber: Subscriber,
    /// Which connection this is.
    connection: u64,
    heard_at: Instant,
    /// The number of the last message in this watch.
    heard: u64,
    /// The keys that are there, until all were heard.
    present: Option<BTreeSet<String>>,
    /// Whether what is there was heard, and is to be told.
    is_complete: bool,
}

/// What a watch hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// What a key has. `None`: it ended.
    Key { key: String, revision: u64, value: Option<Bytes> },
    /// Each key that was there when the watch was opened was told: these.
    Present(BTreeSet<String>),
}

impl BucketWatch {
    /// Listens to the keys that a pattern includes.
    ///
    /// # Errors
    ///
    /// [`FleetError::Forbidden`], [`FleetError::Unclear`]
    pub(super) async fn open(link: &Link, bucket: &'static str, keys: &str) -> Result<Self, FleetError> {
        let unclear = |error: &dyn std::fmt::Display| FleetError::Unclear { reason: error.to_string() };
        let connection = connection(link);
        let inbox = link.client.new_inbox();
        let subscriber = link.client.subscribe(inbox.clone()).await.map_err(|error| unclear(&error))?;
        let config = push::Config {
            deliver_subject: inbox,
            filter_subject: key_subject(bucket, keys),
            deliver_policy: DeliverPolicy::LastPerSubject,
            ack_policy: AckPolicy::None,
            max_deliver: 1,
            idle_heartbeat: HEARTBEAT,
            inactive_threshold: GONE,
            num_replicas: 1,
            memory_storage: true,
            ..push::Config::default()
        };
        let stream = format!("KV_{bucket}");
        let subject = format!("{API}CONSUMER.CREATE.{stream}");
        let consumer = link.jetstream.create_consumer_on_stream(config, stream);
        let consumer = link.permitted(&subject, consumer).await?.map_err(|error| unclear(&error))?;
        let info = consumer.cached_info();
        Ok(Self {
            link: link.clone(),
            bucket,
            subscriber,
            connection,
            heard_at: Instant::now(),
            heard: 0,
            present: Some(BTreeSet::new()),
            is_complete: info.num_pending == 0 && info.delivered.consumer_sequence == 0,
        })
    }

    /// What is heard next. It may be dropped meanwhile.
    ///
    /// # Errors
    ///
    /// Something may have been missed: the watch has ended.
    pub(super) async fn next(&mut self) -> Result<Heard, String> {
        loop {
            if self.is_complete
                && let Some(keys) = self.present.take()
            {
                return Ok(Heard::Present(keys));
            }
            let message = match tokio::time::timeout(LOOK, self.subscriber.next()).await {
                Ok(message) => message.ok_or("the connection ended")?,
                Err(_elapsed) if connection(&self.link) != self.connection => {
                    return Err("the connection is another one".to_owned());
                }
                Err(_elapsed) if self.heard_at.elapsed() > SILENCE => {
                    return Err("the servers are silent".to_owned());
                }
                Err(_elapsed) => continue,
            };
            self.heard_at = Instant::now();
            match message.status {
                None => return self.take(message),
                Some(StatusCode::IDLE_HEARTBEAT) => {
                    let last = message.headers.as_ref().and_then(|headers| headers.get(NATS_LAST_CONSUMER));
                    if last.is_none_or(|last| last.as_str() != self.heard.to_string()) {
                        return Err("a change was missed".to_owned());
                    }
                }
                Some(status) => return Err(format!("the servers end it: {status}")),
            }
        }
    }

    fn take(&mut self, message: async_nats::Message) -> Result<Heard, String> {
        let message = jetstream::Message { message, context: self.link.jetstream.clone() };
        let info = message.info().map_err(|error| error.to_string())?;
        if info.consumer_sequence != self.heard + 1 {
            return Err("a change was missed".to_owned());
        }
        let revision = info.stream_sequence;
        let is_last = info.pending == 0;
        self.heard = info.consumer_sequence;
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
        Ok(Heard::Key { key, revision, value: is_there.then_some(message.message.payload) })
    }
}

/// Another number for each connection.
fn connection(link: &Link) -> u64 {
    link.client.statistics().connects.load(Ordering::Relaxed)
}
