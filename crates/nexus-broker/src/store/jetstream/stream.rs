//! Requests to the stream.

use async_nats::jetstream::{
    consumer::{Consumer, pull},
    message::{PublishMessage, StreamMessage},
    stream::{Config, DiscardPolicy, Info, RetentionPolicy, StorageType},
};
use nexus_fleet::FleetConnection;
use nexus_nats::{NatsStoreError, NatsStream};

use super::{
    fault,
    records::{STREAM, SUBJECTS, VERSION, VERSION_KEY},
};
use crate::error::{BrokerError, BrokerErrorKind};

const READING: &str = "reading the stream";

/// The stream, and the connection to it.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    pub(super) connection: FleetConnection,
    stream: NatsStream,
}

impl Requests {
    /// Opens the stream, and creates it if it does not exist.
    pub(super) async fn open(connection: FleetConnection) -> Result<Self, BrokerError> {
        let config = Config {
            name: STREAM.to_owned(),
            description: Some(
                "Messages between agents, how far they are, and the documents of brokers".to_owned(),
            ),
            subjects: vec![SUBJECTS.to_owned()],
            // Only the last message of each subject counts. Nothing expires by age: each `put` deletes some ended messages.
            max_messages_per_subject: 1,
            discard: DiscardPolicy::Old,
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            num_replicas: connection.replicas(),
            metadata: [(VERSION_KEY.to_owned(), VERSION.to_string())].into(),
            ..Config::default()
        };
        let nats = connection.nats();
        nats.ensure_stream(config).await.map_err(|error| fault::server(&error))?;
        let stream = nats.stream(STREAM).await.map_err(|error| fault::server(&error))?;
        let requests = Self { connection, stream };
        let info = requests.info().await?;
        let found = info.config.metadata.get(VERSION_KEY).and_then(|version| version.parse::<u32>().ok());
        if found != Some(VERSION) {
            let found = found.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(BrokerError::new(
                BrokerErrorKind::Damaged,
                format!("the stream {STREAM} has version {found}, but this program supports only {VERSION}"),
                "use the version of Nexus that created it",
            ));
        }
        Ok(requests)
    }

    /// Returns the state of the stream.
    pub(super) async fn info(&self) -> Result<Info, BrokerError> {
        self.stream.info().await.map_err(fault::request("the state of the stream"))
    }

    /// Returns the message with this number. `None`: it was deleted.
    pub(super) async fn message(&self, number: u64) -> Result<Option<StreamMessage>, BrokerError> {
        self.stream.message(number).await.map_err(fault::request("a message of the stream"))
    }

    /// Returns the last message on a subject. `None` if it has no message.
    pub(super) async fn last(&self, on: &str) -> Result<Option<StreamMessage>, BrokerError> {
        self.stream.last(on).await.map_err(fault::request("the last message on a subject"))
    }

    /// Stores a message, and returns its sequence number. `expected` is the sequence number that the last message on the
    /// subject must have. `Ok(None)`: the last message is another.
    pub(super) async fn store(
        &self,
        what: &str,
        subject: &str,
        message: PublishMessage,
        expected: Option<u64>,
    ) -> Result<Option<u64>, BrokerError> {
        let message = match expected {
            Some(expected) => message.expected_last_subject_sequence(expected),
            None => message,
        };
        match self.connection.nats().store(subject, message).await {
            Ok(number) => Ok(Some(number)),
            Err(NatsStoreError::Superseded) => Ok(None),
            // No server listens on the subject. This also happens while the servers elect the leader of the
            // stream.
            Err(NatsStoreError::NoStream) => {
                self.info().await?;
                Err(fault::unclear(what, &"no server led the stream of messages"))
            }
            Err(error) => Err(fault::store(what, error)),
        }
    }

    /// Deletes a message, if it is still there.
    pub(super) async fn delete(&self, number: u64) -> Result<(), BrokerError> {
        let Err(error) = self.stream.delete(number).await else { return Ok(()) };
        // The server has several errors for a deleted message, so ask for the message itself.
        if error.is_unclear() && self.message(number).await?.is_none() {
            return Ok(());
        }
        Err(fault::request("a message that is over")(error))
    }

    /// Creates a consumer of headers that reads the whole stream from a sequence number on.
    pub(super) async fn follow(&self, first: u64) -> Result<Consumer<pull::Config>, BrokerError> {
        let consumer = self.stream.reader(first, &[SUBJECTS.to_owned()], true).await;
        consumer.map_err(fault::request(READING))
    }

    /// Classifies the error of a consumer of this stream.
    pub(super) fn unread(&self, error: &dyn std::fmt::Display) -> BrokerError {
        fault::request("the stream of messages")(self.stream.fault(error))
    }

    /// Reads the messages on these subjects from a sequence number on, until the last one or until `take` returns false.
    pub(super) async fn read(
        &self,
        first: u64,
        subjects: &[String],
        take: impl FnMut(StreamMessage) -> bool + Send,
    ) -> Result<(), BrokerError> {
        self.stream.read(first, subjects, take).await.map_err(fault::request(READING))
    }
}
