//! Connection to the servers, with the settings of the fleet.

use std::sync::Arc;

use async_nats::Subscriber;
use bytes::Bytes;
use nexus_nats::{NatsConnection, NatsError, NatsSettings};

use crate::{
    protocol::{STARTED_STREAM, started_subject},
    settings::FleetSettings,
};

/// A connection to the servers of a fleet. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) nats: NatsConnection,
    pub(crate) settings: Arc<FleetSettings>,
}

impl Link {
    /// Connects. The tasks of the connection run on the runtime of this call.
    pub(crate) async fn connect(settings: Arc<FleetSettings>) -> Result<Self, NatsError> {
        let nats = NatsSettings {
            servers: settings.servers.clone(),
            name: settings.name().to_owned(),
            credentials: settings.credentials.clone(),
            ca_file: settings.ca_file.clone(),
        };
        Ok(Self { nats: NatsConnection::connect(&nats).await?, settings })
    }

    /// Subscribes to a subject.
    ///
    /// # Errors
    ///
    /// As [`NatsConnection::subscribe`].
    pub(crate) async fn subscribe(&self, subject: String) -> Result<Subscriber, NatsError> {
        // `subscribe` needs a request that every account may make: the server reports a refused subscription before it answers
        // that request.
        let subject_of_none = started_subject(self.settings.name(), "none");
        self.nats.subscribe(subject, self.last(STARTED_STREAM, &subject_of_none)).await
    }

    /// Returns the last message on a subject of a stream. Shortly after a write, it may still be the message before.
    pub(crate) async fn last(&self, stream: &str, subject: &str) -> Result<Option<Bytes>, NatsError> {
        self.nats.stream(stream).await?.last_of_any_server(subject).await
    }
}
