//! Turns on other machines: a backend that sends its work to a pool of workers, over NATS JetStream.
//!
//! A turn may run on another machine without any difference above
//! [`ExecutionBackend`](nexus_core::ExecutionBackend). [`FleetBackend`] is an ordinary backend: it stores the turn
//! in the queue of a pool, follows it, answers the calls of the caller's tools, and returns the result that the
//! worker stored. A [`Worker`] takes turns out of the queue and runs them through its router.
//!
//! | to | use |
//! | --- | --- |
//! | move a backend by one line of `nexus.yaml` | [`FleetPools`] with [`Registry::with_pools`](nexus_core::Registry::with_pools) |
//! | run turns of a pool on this machine | [`Worker`] |
//! | create the streams and buckets | [`Fleet::set_up`] |
//! | see workers, queues and holds | [`Fleet::status`] |
//! | share holds and `max_turns_at_once` between machines | [`FleetHoldStore`] |
//! | use streams of your own on the same servers | [`FleetConnection`] |
//! | share one login between machines, owned by one of them | [`LoginOwner`], [`Worker::with_login`], [`Fleet::shared_logins`] |
//!
//! `docs/reference/fleet-protocol.md` describes the messages, and why a turn runs at most once. `docs/guide/fleet.md` lists the
//! measurements: events of `tracing` with the target `nexus::metrics`, which `nexus-otlp` turns into metrics.

mod blocking;
mod bundle_file;
mod caller;
mod connection;
mod error;
mod fleet;
mod hold_store;
mod link;
mod login;
mod login_owner;
mod measure;
mod objects;
mod pools;
mod private_folder;
mod protocol;
mod sealing_key;
mod settings;
mod setup;
mod spoiled;
mod started_key;
mod status;
mod wait;
mod worker;

pub use caller::FleetBackend;
pub use connection::FleetConnection;
pub use error::FleetError;
pub use fleet::Fleet;
pub use hold_store::FleetHoldStore;
pub use login_owner::LoginOwner;
pub use nexus_nats::{NatsCredentials as FleetCredentials, NatsError};
pub use pools::FleetPools;
pub use protocol::{PROTOCOL_VERSION, Priority, name_fault};
pub use sealing_key::FleetKey;
pub use settings::{FleetSettings, WorkerSettings, WorkspaceMode};
pub use status::{FleetStatus, PoolStatus, WorkerStatus};
pub use worker::{Offer, Worker};
