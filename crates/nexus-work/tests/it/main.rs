//! The integration tests.

mod agents;
#[cfg(feature = "service")]
mod indexed;
#[cfg(feature = "service")]
mod journal;
mod links;
mod owners;
mod registry;
#[cfg(feature = "report")]
mod report;
mod support;
#[cfg(feature = "service")]
mod waiting;
mod workspace;
mod workspace_faults;
mod workspace_writers;
