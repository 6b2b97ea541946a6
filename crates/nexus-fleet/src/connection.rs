//! The connection of a program's share in the fleet, for what else the program keeps on its servers.

use async_nats::jetstream::{Context, message::PublishMessage, stream};

use crate::{
    error::FleetError,
    fleet::Fleet,
    link::{FleetStoreError, Link},
    setup,
};

/// The connection of a [`Fleet`], with its credentials and its certificates, for streams of its program's own. Clones share it.
///
/// The fleet is kept for as long as this is.
#[derive(Clone, Debug)]
pub struct FleetConnection {
    link: Link,
    fleet: Fleet,
}

impl Fleet {
    /// The connection, made now if there was none, for what else is kept on these servers.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the servers could not be used.
    pub async fn connection(&self) -> Result<FleetConnection, FleetError> {
        Ok(FleetConnection { link: self.0.link().await?, fleet: self.clone() })
    }
}

impl FleetConnection {
    /// The client's own view of the servers. What goes by it alone waits for an answer in vain where the account may not.
    #[must_use]
    pub fn jetstream(&self) -> &Context {
        &self.link.jetstream
    }

    /// How many servers keep a copy of what is stored, by the settings.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.link.settings.replicas()
    }

    /// The largest message that the servers take, in bytes, with its headers.
    #[must_use]
    pub fn max_payload_bytes(&self) -> usize {
        self.link.client.server_info().max_payload
    }

    /// Stores a message in the stream that takes its subject. `Ok` is its number in the stream.
    ///
    /// # Errors
    ///
    /// [`FleetStoreError`]
    pub async fn store(&self, subject: &str, message: PublishMessage) -> Result<u64, FleetStoreError> {
        self.link.store(subject, message).await
    }

    /// What a request comes to whose subject begins so (`$JS.API.STREAM.INFO.…`).
    ///
    /// # Errors
    ///
    /// [`FleetError::Forbidden`], which no answer of the servers tells.
    pub async fn permitted<T>(
        &self,
        subject: &str,
        request: impl Future<Output = T>,
    ) -> Result<T, FleetError> {
        self.link.permitted(subject, request).await
    }

    /// Makes a stream where it is not there. One that is there stays as it is.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: it is not there, and could not be made.
    pub async fn ensure_stream(&self, config: stream::Config) -> Result<(), FleetError> {
        setup::ensure_own_stream(&self.link, config).await
    }

    /// Starts work where the connection is served. It ends with the last user of the fleet at the latest.
    pub fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.fleet.0.start(work);
    }
}
