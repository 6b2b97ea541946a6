//! The router through its public API alone, over backends of the tests' own.

mod config_errors;
mod fallback;
mod holds;
mod panels;
mod queue;
mod support;
