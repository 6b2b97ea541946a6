//! Messages between agents while they work, triggers that start work, and the stored sessions of both.
//!
//! | to | see |
//! | --- | --- |
//! | send a message to an agent | [`Envelope`], [`Payload`] |
//! | store messages on one machine, or on the servers of a fleet | [`SqliteStore`], `JetStreamStore`, by [`BrokerStore`] |
//! | start work by time, files, webhooks or reports | [`trigger`] |
//! | run the turns of agents that write to each other | [`Broker`], [`BrokerSettings`] |
//! | deliver answers to an external program | [`Broker::call_back`] |
//! | wait for an answer, beside other programs of the same caller | [`AwaitedAnswer`] |
//! | search the sessions of agents | [`Sessions`], [`MemoryIndex`] |
//!
//! [`message`] describes the content of a message, and [`BrokerStore`] its delivery.

mod agent;
mod broker;
mod callback;
mod cut;
mod error;
mod inbox;
mod lock;
mod memory;
pub mod message;
mod route;
mod runner;
mod session;
mod session_key;
mod settings;
mod store;
pub mod trigger;
mod turn;
mod turn_count;
mod unreadable;
mod view;
mod worker;

pub use agent::{
    AgentDocument, AgentScope, AgentStatus, BegunTurn, HEARTBEAT_LASTS, ProgressReport, WorkerTree,
};
pub use broker::{Broker, BrokerOptions, Reach, SendOptions, Sent};
pub use callback::CallerCallback;
pub use error::{BrokerError, BrokerErrorKind};
pub use inbox::AwaitedAnswer;
pub use memory::{MemoryHit, MemoryIndex};
pub use message::{Address, Envelope, EnvelopeId, MessagePriority, Payload, ReportedStatus, envelope_schema};
pub use route::{Agents, ByAddress, Route};
pub use session::{SessionList, Sessions};
pub use session_key::SessionKey;
pub use settings::{AgentSettings, BrokerSection, BrokerSettings, CallerSettings};
#[cfg(feature = "jetstream")]
pub use store::JetStreamStore;
pub use store::{
    BrokerStore, Delivery, DocumentKind, ExpectedRevision, HandlingLease, LoggedEnvelope, LoggedEvent,
    PutOutcome, QueueLimits, QueueStatus, SetAsideMessage, SqliteStore, StoredDocument,
};
pub use unreadable::unreadable_records;
pub use view::{Views, line};
