//! The integration tests.

mod agents;
mod links;
mod owners;
mod support;
mod waiting;
mod workspace;
mod workspace_faults;
mod workspace_writers;
