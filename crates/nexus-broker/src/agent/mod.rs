//! Agents: their records, their scopes, and the start of their turns.
//!
//! An agent is a record in the store and a queue. A broker that finds a message in the queue runs a turn of the agent's
//! conversation with it, through the router. A manager is an agent whose scope allows it to start workers. If the manager's
//! folder is a repository, each worker gets its own tree of it.

mod directory;
mod record;

pub(crate) use directory::Directory;
pub(crate) use record::MOST_UNENDED;
pub use record::{
    AgentDocument, AgentScope, AgentStatus, BegunTurn, HEARTBEAT_LASTS, ProgressReport, WorkerTree,
};
