//! What holds of every store of messages, held against each of them; and what each meets in its own place.
//!
//! The store of a server needs a `nats-server`: `NEXUS_REAL_NATS` names it, as `real-servers/install` prints. With NEXUS_TEST_ALL_KILLS
//! there are 200 kills of each store instead of 8.
#![cfg(unix)]

#[cfg(feature = "jetstream")]
#[path = "../agents/kit.rs"]
#[allow(dead_code, reason = "a kit: sessions need a part of it")]
mod agents;
#[cfg(feature = "jetstream")]
#[path = "../../../nexus-fleet/tests/fleet/cluster.rs"]
mod cluster;
#[cfg(feature = "jetstream")]
mod jetstream;
mod kills;
mod kit;
#[cfg(feature = "jetstream")]
mod leader_kills;
#[cfg(feature = "jetstream")]
#[path = "../../../nexus-fleet/tests/fleet/monitoring.rs"]
mod monitoring;
#[cfg(feature = "jetstream")]
mod permissions;
mod scarce;
#[cfg(feature = "jetstream")]
#[path = "../../../nexus-fleet/tests/fleet/server.rs"]
mod server;
#[cfg(feature = "jetstream")]
mod sessions;
mod sqlite;
mod suite;
