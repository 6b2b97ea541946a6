//! How the message of a firing gets to whom it is for.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    error::{BrokerError, BrokerErrorKind},
    message::{Address, Envelope},
    route::queue_of,
    store::{BrokerStore, PutOutcome},
};

/// How the message of a firing gets to whom it is for, and whom an agent may have a trigger address. A [`Broker`](crate::Broker) does both by its route and
/// its scopes; [`StoreTargets`] by the address alone.
#[async_trait]
pub trait TriggerTargets: fmt::Debug + Send + Sync + 'static {
    /// Whether a trigger that an agent makes may address the target. Fails with [`NotAllowed`](BrokerErrorKind::NotAllowed) if its
    /// scope does not let it, [`Unknown`](BrokerErrorKind::Unknown) if there is no such target.
    async fn check_target(&self, agent: &str, target: &Address) -> Result<(), BrokerError>;

    /// Puts a message by its id. A failure that is [`NotAllowed`](BrokerErrorKind::NotAllowed), [`Unknown`](BrokerErrorKind::Unknown) or
    /// [`Invalid`](BrokerErrorKind::Invalid) is final: the occurrence passes. Any other is tried again.
    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError>;
}

/// Puts messages into the queues of a store by their address alone. An agent may address itself, its sessions and its manager.
#[derive(Clone, Debug)]
pub struct StoreTargets {
    store: Arc<dyn BrokerStore>,
}

impl StoreTargets {
    /// The queues of this store.
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
            format!("{agent} may not have a trigger address {target}"),
            "leave the target out, or name yourself or your manager",
        ))
    }

    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        self.store.put(&queue_of(&envelope.target_agent_id), envelope).await
    }
}
