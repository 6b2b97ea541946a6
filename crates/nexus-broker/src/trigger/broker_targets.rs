//! Firings as messages of a broker. In a file of its own, which no other imports: the broker's agents have triggers.

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

    /// Sends the message as the agent that owns the trigger, by its current scope.
    async fn deliver(&self, envelope: &Envelope) -> Result<PutOutcome, BrokerError> {
        self.submit(&envelope.source_agent_id, envelope.clone()).await.map(|sent| sent.outcome)
    }
}
