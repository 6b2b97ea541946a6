//! Inputs of a configuration's check: kinds, environment, and backends registered from Rust.

use std::sync::Arc;

use nexus_core::{BuildContext, Registry};

use super::configuration::ConfiguredBackend;

/// Inputs of a configuration's check.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    pub(crate) registry: Registry,
    pub(crate) context: BuildContext,
    /// Backends that were registered from Rust.
    pub(crate) custom: Vec<Arc<ConfiguredBackend>>,
}
