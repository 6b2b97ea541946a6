//! The integration tests.

mod artifacts;
mod example;
mod hook_inputs;
mod hub;
mod project_edges;
