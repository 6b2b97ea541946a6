//! The integration tests.

mod artifacts;
mod example;
mod project_edges;
