//! The integration tests.

mod example;
mod hook_inputs;
mod hub;
mod project_edges;
