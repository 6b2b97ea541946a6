//! The integration tests. Those that need a real `nats-server` are ignored unless asked for.

mod faults;
mod fleet;
mod support;
