//! The backends of Nexus: one folder per vendor behind the seam, and what vendors share.
//!
//! | module | holds |
//! | --- | --- |
//! | [`registry()`] | every kind of this build: one line per vendor |
//! | `claude`, `codex`, `grok`, `generic` | the vendors: `cli/`, `native/` and `login`, as far as each has them |
//! | [`cli`] | the driver of a line-speaking CLI |
//! | [`responses`] | the loop over the Responses API |
//! | [`mcp_server`] | the caller's tools, served to a CLI for one turn |
//! | [`auth`] | logins and what is lent of them |

#[cfg(feature = "claude")]
pub mod claude;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "login")]
pub mod codex;
#[cfg(feature = "responses")]
pub mod generic;
#[cfg(feature = "login")]
pub mod grok;
#[cfg(feature = "login")]
pub mod logins;
#[cfg(feature = "mcp-server")]
pub mod mcp_server;
#[cfg(any(feature = "codex", feature = "grok", feature = "native"))]
mod own_login;
#[cfg(any(feature = "cli", feature = "native"))]
mod redact;
mod registry;
#[cfg(feature = "native")]
pub mod responses;
#[cfg(any(feature = "cli", feature = "native"))]
mod settings;

pub use nexus_auth as auth;
#[cfg(any(feature = "login", feature = "native"))]
pub use nexus_auth::http;
pub use registry::registry;
