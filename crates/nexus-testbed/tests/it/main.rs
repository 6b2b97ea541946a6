//! The integration tests.

mod example;
mod experiments;
mod proofs;
mod refusals;
mod reports;
mod reviews;
mod statistics;
mod support;
