//! Connection of a program's share in the fleet, for streams of its own on the same servers.

use nexus_nats::NatsConnection;

use crate::{error::FleetError, fleet::Fleet};

/// The connection of a [`Fleet`], with its credentials and its certificates, for streams of its program's own. Clones share it.
///
/// The fleet stays open for as long as this.
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
    /// The connection to the servers.
    #[must_use]
    pub fn nats(&self) -> &NatsConnection {
        &self.nats
    }

    /// Number of servers with a copy of what is stored, by the settings.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.fleet.settings().replicas()
    }

    /// Starts work on the thread of the connection. It ends with the last user of the fleet at the latest.
    pub fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.fleet.0.start(work);
    }
}
