//! The fleet, before a real `nats-server`.

mod acceptor;
mod cluster;
mod monitoring;
mod proxy;
mod server;
mod server_tests;
