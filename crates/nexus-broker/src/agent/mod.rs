//! Agents: who they are, what they may say to whom, and how their turns are run.
//!
//! An agent is a record in the store and a queue. A broker that finds a message in the queue runs a turn of the agent's conversation with it,
//! through the router. A manager is an agent whose scope allows it to start others; each of those has a tree of its own where the manager's
//! folder is a repository.

mod directory;
mod record;

pub(crate) use directory::Directory;
pub(crate) use record::MOST_UNENDED;
pub use record::{
    AgentDocument, AgentScope, AgentStatus, BegunTurn, HEARTBEAT_LASTS, ProgressReport, WorkerTree,
};
