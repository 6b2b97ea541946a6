//! The router through its public API alone, over backends of the tests' own.

mod config_errors;
mod explain;
mod fallback;
mod holds;
mod json_schema;
mod mutations;
mod neutral;
mod panels;
mod queue;
mod reload;
mod routed;
mod support;
mod telemetry;
