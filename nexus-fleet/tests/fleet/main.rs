//! The fleet, before a real `nats-server`.

mod proxy;
mod server;
