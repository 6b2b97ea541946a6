//! The integration tests.

mod artifacts;
mod example;
mod hook_inputs;
mod project_edges;
