//! The backends of Nexus: one folder per vendor behind the seam, and the logins that they are lent from.

pub mod auth;
pub mod delegated;
#[cfg(any(feature = "login", feature = "native"))]
pub mod http;
#[cfg(feature = "native")]
pub mod native;
#[cfg(any(feature = "codex", feature = "grok", feature = "native"))]
mod own_login;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok", feature = "login", feature = "native"))]
mod redact;
mod registry;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok", feature = "native"))]
mod settings;

pub use registry::registry;
