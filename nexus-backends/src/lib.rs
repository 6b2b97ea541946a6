//! The backends of Nexus: one folder per vendor behind the seam.

pub mod auth;
pub mod delegated;
mod registry;

pub use registry::registry;
