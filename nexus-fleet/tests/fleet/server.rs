//! A `nats-server` of a test.
