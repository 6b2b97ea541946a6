//! The backends of Nexus: one folder per vendor behind the seam.

pub mod auth;
pub mod delegated;
pub mod redact;
mod registry;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod turn;

pub use registry::registry;
