//! Messages between agents while they work, triggers that start work, and what is kept of both.
//!
//! | to | see |
//! | --- | --- |
//! | say something to an agent | [`Envelope`], [`Payload`] |
//! | keep messages on one machine, or on the servers of a fleet | [`SqliteStore`], `JetStreamStore`, by [`BrokerStore`] |
//! | have work begin by time, files, webhooks or reports | [`trigger`] |
//! | run the turns of agents that write to each other | [`Broker`], [`BrokerSettings`] |
//! | have answers delivered to a program outside | [`Broker::call_back`] |
//! | wait for an answer, beside other programs of the same caller | [`AwaitedAnswer`] |
//! | find what they said | [`Sessions`], [`MemoryIndex`] |
//!
//! What a message is stands in [`message`], what holds of its way to the one who handles it in [`BrokerStore`].

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
