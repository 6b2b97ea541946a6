//! Access to the fleet's connection, for other streams on the same servers.

use nexus_nats::NatsConnection;

use crate::{error::FleetError, fleet::Fleet};

/// The connection of a [`Fleet`], with its credentials and certificates, for other streams of the program. Clones share it.
///
/// The fleet stays open while this exists.
#[derive(Clone, Debug)]
pub struct FleetConnection {
    nats: NatsConnection,
    fleet: Fleet,
}

impl Fleet {
    /// Returns the connection, and connects first if necessary.
    ///
    /// # Errors
    ///
    /// [`FleetError`]: the servers could not be used.
    pub async fn connection(&self) -> Result<FleetConnection, FleetError> {
        Ok(FleetConnection { nats: self.0.link().await?.nats, fleet: self.clone() })
    }
}

impl FleetConnection {
    /// Returns the connection to the servers.
    #[must_use]
    pub fn nats(&self) -> &NatsConnection {
        &self.nats
    }

    /// Returns the configured number of servers with a copy of stored data.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.fleet.settings().replicas()
    }

    /// Starts work on the thread of the connection. The work ends at the latest with the last user of the fleet.
    pub fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.fleet.0.start(work);
    }
}
