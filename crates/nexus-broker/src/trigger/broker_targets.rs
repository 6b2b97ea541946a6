//! Delivers firings as messages of a broker. This is a separate file that no other file imports, because the broker's agents
//! use triggers.

use async_trait::async_trait;

use super::targets::TriggerTargets;
use crate::{
    broker::Broker,
    error::BrokerError,
    message::{Address, Envelope},
    store::PutOutcome,
};

#[async_trait]
impl TriggerTargets for Broker {
    async fn check_target(&self, agent: &str, target: &Address) -> Result<(), BrokerError> {
        self.may_send(&Address::agent(agent)?, target).await
    }

    /// Sends the message as the agent that owns the trigger, under the agent's current scope.
    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        self.submit(&envelope.source_agent_id, envelope.clone()).await.map(|sent| sent.outcome)
    }
}
