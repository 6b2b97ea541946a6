//! The backends of Nexus: one folder per vendor behind the seam.

pub mod auth;
pub mod delegated;
mod registry;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod turn;

pub use registry::registry;
