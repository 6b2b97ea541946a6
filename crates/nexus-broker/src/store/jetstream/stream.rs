//! Requests to the stream.

use std::time::Duration;

use async_nats::jetstream::{
    consumer::{AckPolicy, DeliverPolicy, pull},
    message::StreamMessage,
    stream::{
        Config, DiscardPolicy, LastRawMessageErrorKind, RawMessageErrorKind, RetentionPolicy, StorageType,
        Stream,
    },
};
use bytes::Bytes;
use futures::StreamExt as _;
use nexus_fleet::{FleetConnection, FleetStoreError};
use tokio::time::timeout;

use super::{
    fault,
    records::{STREAM, SUBJECTS, VERSION, VERSION_KEY},
};
use crate::error::{BrokerError, BrokerErrorKind};

/// How long the servers may take for one answer. Source: an election was seen to take 5.1 to 6.1 s.
pub(super) const ANSWER_TIME: Duration = Duration::from_secs(7);
/// How long what reads the stream stays when its program is gone.
const READER_GONE: Duration = Duration::from_secs(30);
const API: &str = "$JS.API.";

/// The stream, and the connection to it.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) connection: FleetConnection,
    stream: Stream<()>,
}

/// A message of the stream, as it was read.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) number: u64,
    pub(super) subject: String,
    pub(super) headers: async_nats::HeaderMap,
    pub(super) payload: Bytes,
}

impl From<StreamMessage> for Read {
    fn from(message: StreamMessage) -> Self {
        Self {
            number: message.sequence,
            subject: message.subject.to_string(),
            headers: message.headers,
            payload: message.payload,
        }
    }
}

impl Requests {
    /// The stream, made where it is not there.
    pub(super) async fn open(connection: FleetConnection) -> Result<Self, BrokerError> {
        let config = Config {
            name: STREAM.to_owned(),
            description: Some(
                "Messages between agents, how far they are, and the documents of brokers".to_owned(),
            ),
            subjects: vec![SUBJECTS.to_owned()],
            // The last word on each subject counts. Nothing is dropped by age: what is over is deleted by who puts more.
            max_messages_per_subject: 1,
            discard: DiscardPolicy::Old,
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: connection.replicas(),
            metadata: [(VERSION_KEY.to_owned(), VERSION.to_string())].into(),
            ..Config::default()
        };
        connection.ensure_stream(config).await.map_err(|error| fault::fleet(&error))?;
        let stream = connection.jetstream().get_stream_no_info(STREAM).await;
        let stream = stream.map_err(|error| fault::request("the stream of messages", &error))?;
        let requests = Self { connection, stream };
        let info = requests.info().await?;
        let found = info.config.metadata.get(VERSION_KEY).and_then(|version| version.parse::<u32>().ok());
        if found != Some(VERSION) {
            let found = found.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(BrokerError::new(
                BrokerErrorKind::Damaged,
                format!("the stream {STREAM} is of version {found}, and this program knows {VERSION}"),
                "use the version of Nexus that made it",
            ));
        }
        Ok(requests)
    }

    /// The state of the stream, by the server that leads.
    pub(super) async fn info(&self) -> Result<async_nats::jetstream::stream::Info, BrokerError> {
        let asked = timeout(ANSWER_TIME, self.stream.get_info());
        let subject = format!("{API}STREAM.INFO.{STREAM}");
        let answer =
            self.connection.permitted(&subject, asked).await.map_err(|error| fault::fleet(&error))?;
        match answer {
            Ok(Ok(info)) => Ok(info),
            Ok(Err(error)) => Err(fault::request("the state of the stream", &error)),
            Err(elapsed) => Err(fault::unclear("the state of the stream", &elapsed)),
        }
    }

    /// The message with this number, by the server that leads. `None`: there is none any more.
    pub(super) async fn message(&self, number: u64) -> Result<Option<Read>, BrokerError> {
        let asked = timeout(ANSWER_TIME, self.stream.get_raw_message(number));
        let subject = format!("{API}STREAM.MSG.GET.{STREAM}");
        let answer =
            self.connection.permitted(&subject, asked).await.map_err(|error| fault::fleet(&error))?;
        match answer {
            Ok(Ok(message)) => Ok(Some(message.into())),
            Ok(Err(error)) if error.kind() == RawMessageErrorKind::NoMessageFound => Ok(None),
            Ok(Err(error)) => Err(fault::request("a message of the stream", &error)),
            Err(elapsed) => Err(fault::unclear("a message of the stream", &elapsed)),
        }
    }

    /// The last message on a subject, by the server that leads.
    pub(super) async fn last(&self, on: &str) -> Result<Option<Read>, BrokerError> {
        let asked = timeout(ANSWER_TIME, self.stream.get_last_raw_message_by_subject(on));
        let subject = format!("{API}STREAM.MSG.GET.{STREAM}");
        let answer =
            self.connection.permitted(&subject, asked).await.map_err(|error| fault::fleet(&error))?;
        match answer {
            Ok(Ok(message)) => Ok(Some(message.into())),
            Ok(Err(error)) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Ok(Err(error)) => Err(fault::request("the last message on a subject", &error)),
            Err(elapsed) => Err(fault::unclear("the last message on a subject", &elapsed)),
        }
    }

    /// Stores a message. `expected`: the number of the last on the subject. `Ok(None)`: it is another.
    pub(super) async fn store(
        &self,
        what: &str,
        subject: &str,
        message: async_nats::jetstream::message::PublishMessage,
        expected: Option<u64>,
    ) -> Result<Option<u64>, BrokerError> {
        let message = match expected {
            Some(expected) => message.expected_last_subject_sequence(expected),
            None => message,
        };
        match self.connection.store(subject, message).await {
            Ok(number) => Ok(Some(number)),
            Err(FleetStoreError::Superseded) => Ok(None),
            // Nobody listens on the subject: also while the servers elect who leads the stream.
            Err(FleetStoreError::NoStream) => {
                self.info().await?;
                Err(fault::unclear(what, &"no server led the stream of messages"))
            }
            Err(error) => Err(fault::store(what, error)),
        }
    }

    /// Deletes a message, if it is still there.
    pub(super) async fn delete(&self, number: u64) -> Result<(), BrokerError> {
        let asked = timeout(ANSWER_TIME, self.stream.delete_message(number));
        let subject = format!("{API}STREAM.MSG.DELETE.{STREAM}");
        let answer =
            self.connection.permitted(&subject, asked).await.map_err(|error| fault::fleet(&error))?;
        match answer {
            Ok(Ok(_)) => Ok(()),
            // The server has more than one error for a message that is gone.
            Ok(Err(error)) if self.message(number).await?.is_none() => {
                let _ = error;
                Ok(())
            }
            Ok(Err(error)) => Err(fault::request("a message that is over", &error)),
            Err(elapsed) => Err(fault::unclear("a message that is over", &elapsed)),
        }
    }

    /// What reads the stream from a number on. It is gone some time after its program is.
    pub(super) async fn reader(
        &self,
        first: u64,
        subjects: &[String],
        headers_only: bool,
    ) -> Result<async_nats::jetstream::consumer::Consumer<pull::Config>, BrokerError> {
        let config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: first.max(1) },
            ack_policy: AckPolicy::None,
            filter_subjects: subjects.to_vec(),
            headers_only,
            inactive_threshold: READER_GONE,
            memory_storage: true,
            num_replicas: 1,
            ..pull::Config::default()
        };
        let asked = timeout(ANSWER_TIME, self.stream.create_consumer(config));
        let subject = format!("{API}CONSUMER.CREATE.{STREAM}");
        let answer =
            self.connection.permitted(&subject, asked).await.map_err(|error| fault::fleet(&error))?;
        match answer {
            Ok(Ok(consumer)) => Ok(consumer),
            Ok(Err(error)) => Err(fault::request("reading the stream", &error)),
            Err(elapsed) => Err(fault::unclear("reading the stream", &elapsed)),
        }
    }

    /// Reads what is on these subjects from a number on, until there is no more or `take` says that it is enough.
    pub(super) async fn read(
        &self,
        first: u64,
        subjects: &[String],
        mut take: impl FnMut(Read) -> Result<bool, BrokerError> + Send,
    ) -> Result<(), BrokerError> {
        let what = "reading the stream";
        let consumer = self.reader(first, subjects, false).await?;
        let mut left = consumer.cached_info().num_pending;
        let result = async {
            if left == 0 {
                return Ok(());
            }
            let messages = consumer.stream().max_messages_per_batch(200).messages().await;
            let mut messages = messages.map_err(|error| fault::request(what, &error))?;
            while left > 0 {
                let message = match timeout(ANSWER_TIME, messages.next()).await {
                    Ok(Some(Ok(message))) => message,
                    Ok(Some(Err(error))) => return Err(fault::request(what, &error)),
                    Ok(None) => return Err(fault::unclear(what, &"it ended")),
                    Err(elapsed) => return Err(fault::unclear(what, &elapsed)),
                };
                let info = message.info().map_err(|error| fault::unclear(what, &error))?;
                // What was written over meanwhile does not come.
                left = (left - 1).min(info.pending);
                let read = Read {
                    number: info.stream_sequence,
                    subject: message.subject.to_string(),
                    headers: message.headers.clone().unwrap_or_default(),
                    payload: message.payload.clone(),
                };
                if !take(read)? {
                    break;
                }
            }
            Ok(())
        }
        .await;
        let _ = timeout(ANSWER_TIME, self.stream.delete_consumer(&consumer.cached_info().name)).await;
        result
    }
}
