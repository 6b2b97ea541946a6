//! Selects the queue of a message.

use std::fmt;

use async_trait::async_trait;

use crate::{
    agent::{AgentDocument, Directory},
    error::BrokerError,
    message::{Address, Envelope},
};

/// Decides which agent a message is for. The default uses its address alone; another implementation can read
/// the content.
#[async_trait]
pub trait Route: fmt::Debug + Send + Sync + 'static {
    /// Returns the address that receives the message: an agent, a session or a caller. Fails with
    /// [`Unknown`](crate::BrokerErrorKind::Unknown) if the recipient does not exist.
    async fn route(&self, envelope: &Envelope, agents: &Agents) -> Result<Address, BrokerError>;
}

/// The existing agents, for a [`Route`].
#[derive(Clone, Debug)]
pub struct Agents(pub(crate) Directory);

impl Agents {
    /// Returns the agent of this name. Fails with [`Unknown`](crate::BrokerErrorKind::Unknown) if it does not exist.
    pub async fn get(&self, name: &str) -> Result<AgentDocument, BrokerError> {
        self.0.get(name).await
    }

    /// Returns every agent.
    pub async fn all(&self) -> Result<Vec<AgentDocument>, BrokerError> {
        self.0.all().await
    }
}

/// Routes by the address alone: to an existing agent, its session, the manager of a worker, or a caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByAddress;

#[async_trait]
impl Route for ByAddress {
    async fn route(&self, envelope: &Envelope, agents: &Agents) -> Result<Address, BrokerError> {
        match &envelope.target_agent_id {
            Address::ManagerOf(worker) => match agents.get(worker).await?.manager {
                Some(manager) => Address::agent(&manager),
                None => Err(BrokerError::unknown(
                    format!("the agent {worker:?} is not a worker, so it has no manager"),
                    "name the agent",
                )),
            },
            address => {
                if let Some(name) = address.agent_name() {
                    agents.get(name).await?;
                }
                Ok(address.clone())
            }
        }
    }
}

/// Returns the queue of an address. All sessions of an agent share a queue, so that its turns run one after the other.
pub(crate) fn queue_of(address: &Address) -> String {
    match address {
        Address::Agent(name) | Address::Session { agent: name, .. } => format!("agent.{name}"),
        Address::ManagerOf(name) => format!("manager-of.{name}"),
        Address::Caller(name) => format!("caller.{name}"),
    }
}
