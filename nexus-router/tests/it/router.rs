//! The router through its public API alone, over backends of the tests' own.

mod budget;
mod config_errors;
mod continue_on;
mod explain;
mod fallback;
mod hold_store;
mod holds;
mod json_schema;
mod mutations;
mod neutral;
mod panels;
mod pools;
mod providers;
mod queue;
mod reload;
mod reset_waits;
mod restore;
mod routed;
mod run_on;
mod sections;
#[cfg(feature = "spending")]
mod spending;
mod steering;
mod submissions;
mod support;
mod telemetry;
