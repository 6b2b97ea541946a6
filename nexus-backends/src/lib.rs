//! The backends of Nexus: one folder per vendor, and the parts that vendors share.
//!
//! | module | contents |
//! | --- | --- |
//! | [`vendors()`], [`registry()`] | the list of all vendors, and every backend kind of this build |
//! | a folder for each vendor | `cli/`, `native/` and `login`, as far as the vendor has them |
//! | [`cli`] | the driver of a line-speaking CLI |
//! | [`native`] | the loop over a model's API, and its wires |
//! | [`mcp_server`] | the caller's tools, served to a CLI for one turn |
//! | `mcp_servers` | the section of `nexus.yaml` with other people's servers, whose tools each turn gets |
//! | [`auth`] | logins, and the credentials that they lend |

#[cfg(feature = "acp")]
pub mod acp;
#[cfg(feature = "claude")]
pub mod claude;
#[cfg(feature = "cli")]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
pub mod cli;
#[cfg(feature = "codex")]
pub mod codex;
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod detect;
#[cfg(feature = "responses")]
pub mod generic;
#[cfg(feature = "grok")]
pub mod grok;
#[cfg(any(feature = "cli", feature = "native"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod host_list;
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod machine;
#[cfg(feature = "mcp-server")]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
pub mod mcp_server;
#[cfg(feature = "mcp-servers")]
pub mod mcp_servers;
#[cfg(feature = "native")]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
pub mod native;
#[cfg(feature = "login")]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod own_login;
#[cfg(any(feature = "cli", feature = "native"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod prices;
#[cfg(any(feature = "cli", feature = "native"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod redact;
mod registry;
#[cfg(any(feature = "native", feature = "login", feature = "cli"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod server_address;
#[cfg(any(feature = "cli", feature = "native"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod settings;
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod vendor;
#[cfg(any(feature = "cli", feature = "native"))]
#[cfg_attr(not(feature = "every-vendor"), allow(dead_code, reason = "each vendor uses its part of it"))]
mod vendor_words;
mod wire_names;

pub use nexus_auth as auth;
#[cfg(any(feature = "login", feature = "native"))]
pub use nexus_auth::http;
#[cfg(feature = "cli")]
pub use nexus_process as process;
#[cfg(feature = "login")]
pub use own_login::{OwnLogin, UnknownLogin};
#[cfg(feature = "login")]
pub use registry::{login, logins};
pub use registry::{registry, vendors};
pub use vendor::Vendor;
