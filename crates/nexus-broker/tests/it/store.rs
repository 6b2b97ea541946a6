//! What holds of every store of messages, held against each of them; and what each meets in its own place.
//!
//! The store of a server needs a `nats-server`: `NEXUS_REAL_NATS` names it, as `real/servers/install` prints.

#[cfg(feature = "jetstream")]
mod jetstream;
mod kills;
mod kit;
#[cfg(feature = "jetstream")]
mod leader_kills;
#[cfg(feature = "jetstream")]
mod permissions;
mod scarce;
#[cfg(all(feature = "jetstream", target_os = "linux"))]
mod sessions;
mod sqlite;
mod suite;
