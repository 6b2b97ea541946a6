//! Real `nats-server`s for tests: one, one with TLS and accounts, or a cluster of three.

mod cluster;
mod monitoring;
mod server;

pub use cluster::{CLUSTER_SIZE, NatsCluster};
pub use monitoring::NatsMonitoring;
pub use server::{NATS_PROGRAM, NatsServer, free_port, program, write_identity};
