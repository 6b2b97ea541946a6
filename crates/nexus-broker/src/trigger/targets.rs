//! Delivers the messages of firings.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Envelope},
    route::queue_of,
    store::{BrokerStore, PutOutcome},
};

/// Delivers the messages of firings, and decides whom a trigger of an agent may address. A
/// [`Broker`](crate::Broker) does both by its route and its scopes; [`StoreTargets`] by the address alone.
#[async_trait]
pub trait TriggerTargets: fmt::Debug + Send + Sync + 'static {
    /// Checks that a trigger of an agent may address the target. Fails with
    /// [`NotAllowed`](BrokerErrorKind::NotAllowed) if its scope does not allow it, and with
    /// [`Unknown`](BrokerErrorKind::Unknown) for an unknown target.
    async fn check_target(&self, agent: &str, target: &Address) -> Result<(), BrokerError>;

    /// Puts a message by its id. The failures [`NotAllowed`](BrokerErrorKind::NotAllowed),
    /// [`Unknown`](BrokerErrorKind::Unknown) and [`Invalid`](BrokerErrorKind::Invalid) are final: the occurrence is skipped.
    /// After any other failure it is tried again.
    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError>;
}

/// Puts messages into the queues of a store by their address alone. An agent may address itself, its sessions and its manager.
#[derive(Clone, Debug)]
pub struct StoreTargets {
    store: Arc<dyn BrokerStore>,
}

impl StoreTargets {
    /// Delivers to the queues of this store.
    #[must_use]
    pub fn new(store: Arc<dyn BrokerStore>) -> Self {
        Self { store }
    }
}

#[async_trait]
impl TriggerTargets for StoreTargets {
    async fn check_target(&self, agent: &str, target: &Address) -> Result<(), BrokerError> {
        let is_own = match target {
            Address::ManagerOf(worker) => worker == agent,
            other => other.agent_name() == Some(agent),
        };
        if is_own {
            return Ok(());
        }
        Err(BrokerError::new(
            BrokerErrorKind::NotAllowed,
            format!("a trigger of {agent} may not address {target}"),
            "leave the target out, or name yourself or your manager",
        ))
    }

    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        self.store.put(&queue_of(&envelope.target_agent_id), envelope).await
    }
}
