//! The fleet, before a real `nats-server`.

mod acceptor;
mod cluster;
mod frames;
mod holds;
mod monitoring;
mod proxy;
mod relay;
mod server;
mod server_tests;
mod status;
