//! Requests to one stream.

use std::{fmt::Display, time::Duration};

use async_nats::jetstream::{
    consumer::{AckPolicy, Consumer, DeliverPolicy, pull},
    message::StreamMessage,
    stream::{DirectGetErrorKind, Info, InfoError, LastRawMessageErrorKind, RawMessageErrorKind, Stream},
};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::time::timeout;

use crate::{
    connection::{ANSWER_TIME, API, NatsConnection},
    error::NatsError,
};

/// Time after which the server removes the consumer of a program that has ended.
const READER_GONE: Duration = Duration::from_secs(30);

/// A stream, and the connection to it. Clones share the connection.
///
/// The stream's leader answers, unless a method says otherwise. Each request fails with [`NatsError::NotSetUp`] if the
/// stream is missing, [`NatsError::Forbidden`], or [`NatsError::Unclear`].
#[derive(Clone, Debug)]
pub struct NatsStream {
    connection: NatsConnection,
    stream: Stream<()>,
    name: String,
    /// Name in errors. For a bucket it is the name of the bucket.
    what: String,
}

impl NatsConnection {
    /// Returns a stream without a request to the server.
    pub async fn stream(&self, name: impl Into<String>) -> Result<NatsStream, NatsError> {
        let name = name.into();
        let stream = self.jetstream().get_stream_no_info(&name).await.map_err(NatsError::unclear)?;
        Ok(NatsStream { connection: self.clone(), stream, what: name.clone(), name })
    }

    /// Returns the stream behind a key-value bucket.
    pub async fn bucket_stream(&self, bucket: &str) -> Result<NatsStream, NatsError> {
        let stream = self.stream(format!("KV_{bucket}")).await?;
        Ok(NatsStream { what: bucket.to_owned(), ..stream })
    }
}

impl NatsStream {
    /// Returns the connection that the requests use.
    pub fn connection(&self) -> &NatsConnection {
        &self.connection
    }

    /// Returns the configuration and the state of the stream.
    pub async fn info(&self) -> Result<Info, NatsError> {
        let info = self.request("STREAM.INFO", self.stream.get_info()).await?;
        info.map_err(|error| self.fault(&error))
    }

    /// Returns the number of messages on each subject that matches a pattern.
    pub async fn counts(&self, subjects: String) -> Result<Vec<(String, usize)>, NatsError> {
        let counts = async { self.stream.info_with_subjects(subjects).await?.try_collect().await };
        let counts = self.request("STREAM.INFO", counts).await?;
        counts.map_err(|error: InfoError| self.fault(&error))
    }

    /// Returns the message with this number. Returns `None` if the message was deleted or never stored.
    pub async fn message(&self, number: u64) -> Result<Option<StreamMessage>, NatsError> {
        let found = self.stream.get_raw_message(number);
        match self.request("STREAM.MSG.GET", found).await? {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(self.fault(&error)),
        }
    }

    /// Returns the last message on a subject.
    pub async fn last(&self, subject: &str) -> Result<Option<StreamMessage>, NatsError> {
        let found = self.stream.get_last_raw_message_by_subject(subject);
        match self.request("STREAM.MSG.GET", found).await? {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(self.fault(&error)),
        }
    }

    /// Returns the last message on a subject from any server. For a moment it may be an older one.
    pub async fn last_of_any_server(&self, subject: &str) -> Result<Option<Bytes>, NatsError> {
        match self.request("DIRECT.GET", self.stream.direct_get_last_for_subject(subject)).await? {
            Ok(message) => Ok(Some(message.payload)),
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
            Err(error) => Err(NatsError::unclear(error)),
        }
    }

    /// Deletes a message. Fails if the message no longer exists; servers report that with different errors.
    pub async fn delete(&self, number: u64) -> Result<(), NatsError> {
        let deleted = self.request("STREAM.MSG.DELETE", self.stream.delete_message(number));
        deleted.await?.map(drop).map_err(|error| self.fault(&error))
    }

    /// Creates a consumer that reads the stream from a number on. The server removes it some time after the program has
    /// ended.
    pub async fn reader(
        &self,
        first: u64,
        subjects: &[String],
        headers_only: bool,
    ) -> Result<Consumer<pull::Config>, NatsError> {
        let config = pull::Config {
            // Servers number messages from 1, and treat a start at 0 as missing.
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: first.max(1) },
            ack_policy: AckPolicy::None,
            filter_subjects: subjects.to_vec(),
            headers_only,
            inactive_threshold: READER_GONE,
            // A reader lives only as long as its program, so its state needs neither a file nor copies.
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let consumer = self.request("CONSUMER.CREATE", self.stream.create_consumer(config));
        consumer.await?.map_err(|error| self.fault(&error))
    }

    /// Reads the messages on these subjects from a number on, until the last message or until `take` returns false.
    ///
    /// # Errors
    ///
    /// [`NatsError`]: messages may be missing.
    pub async fn read(
        &self,
        first: u64,
        subjects: &[String],
        take: impl FnMut(StreamMessage) -> bool + Send,
    ) -> Result<(), NatsError> {
        let consumer = self.reader(first, subjects, false).await?;
        let result = self.read_all(&consumer, take).await;
        // Ignore an error: the server removes the consumer after `READER_GONE` in any case.
        let _ = timeout(ANSWER_TIME, self.stream.delete_consumer(&consumer.cached_info().name)).await;
        result
    }

    async fn read_all(
        &self,
        consumer: &Consumer<pull::Config>,
        mut take: impl FnMut(StreamMessage) -> bool + Send,
    ) -> Result<(), NatsError> {
        let mut left = consumer.cached_info().num_pending;
        if left == 0 {
            return Ok(());
        }
        let messages = consumer.stream().max_messages_per_batch(200).messages().await;
        let mut messages = messages.map_err(|error| self.fault(&error))?;
        while left > 0 {
            let next = timeout(ANSWER_TIME, messages.next()).await.map_err(NatsError::unclear)?;
            let message = next.ok_or_else(|| NatsError::unclear("it ended"))?;
            let message = message.map_err(|error| self.fault(&error))?;
            let info = message.info().map_err(NatsError::unclear)?;
            // Messages that were overwritten meanwhile are not delivered, so take the server's count.
            left = (left - 1).min(info.pending);
            let read = StreamMessage {
                subject: message.subject.clone(),
                sequence: info.stream_sequence,
                time: info.published,
                headers: message.headers.clone().unwrap_or_default(),
                payload: message.payload.clone(),
            };
            if !take(read) {
                break;
            }
        }
        Ok(())
    }

    /// Classifies the error of a request to this stream.
    pub fn fault(&self, error: &dyn Display) -> NatsError {
        NatsError::of_request(&self.what, error)
    }

    /// Awaits a request to this stream. Its subject ends with the stream's name, or has the name before further parts.
    async fn request<T, E: Display>(
        &self,
        request: &str,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<Result<T, E>, NatsError> {
        self.connection.ask(&format!("{API}{request}.{}", self.name), answer).await
    }
}
