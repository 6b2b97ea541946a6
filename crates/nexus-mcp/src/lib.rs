//! Serves a set of tools to clients of the Model Context Protocol (MCP): over stdio, over streamable HTTP, and
//! over stdio through a server that already runs.
//!
//! A [`SessionServer`] serves the tools of a [`Session`](nexus_core::Session) within the future of a turn, by
//! the same code.
//!
//! The crate implements only the protocol; a [`ToolService`] has the tools. It also has shared parts for services:
//! [`OnFirstCall`] for tools whose arguments and answers are types, [`page`] for answers that every client passes on
//! uncut, [`schema`] for schemas of arguments.
//!
//! The module `client`, behind the feature of that name, is the other side: it starts servers and calls their tools.
//!
//! - Revisions 2025-06-18 and 2025-11-25 begin with `initialize`. Revision 2026-07-28 has no handshake, and every request
//!   names its revision. All three are answered on one connection, in any order.
//! - An MCP session or request id has no state except for the end of a wait: a client that lost its session
//!   continues with a new one.
//! - The answers to `initialize`, `server/discover` and `tools/list` come from memory. A service does slow
//!   loading at the first call.
//! - A cancelled call, a client that leaves and a cancelled protocol task end the *wait*
//!   ([`CallContext::cancelled`]). The service decides if the work continues.
//!
//! ```
//! use nexus_mcp::{CallAnswer, CallContext, JsonObject, ServedTool, ServiceInfo, ToolKind, ToolService};
//! use serde_json::json;
//!
//! #[derive(Debug)]
//! struct Clock;
//!
//! #[async_trait::async_trait]
//! impl ToolService for Clock {
//!     fn info(&self) -> ServiceInfo {
//!         ServiceInfo::new("clock", "1.0.0", "Call `now`.")
//!     }
//!
//!     fn tools(&self) -> Vec<ServedTool> {
//!         vec![ServedTool::new("now", "Tells the time.", json!({ "type": "object" })).with_kind(ToolKind::ReadOnly)]
//!     }
//!
//!     async fn call(&self, _name: &str, _arguments: JsonObject, _context: CallContext) -> CallAnswer {
//!         CallAnswer::structured(json!({ "now": "12:00" }))
//!     }
//!
//!     async fn stop(&self) {}
//! }
//! ```

mod activity;
#[cfg(feature = "service")]
mod attach;
mod call;
#[cfg(feature = "client")]
pub mod client;
mod context;
mod deferred;
mod endpoint;
mod http;
mod in_flight;
mod line;
mod message;
pub mod page;
mod questions;
mod reply;
mod roots;
pub mod schema;
mod server_file;
mod service;
mod session;
mod session_tools;
mod stdio;
mod token;
mod typed;
mod wire;

pub use activity::CallActivity;
#[cfg(feature = "service")]
pub use attach::{AttachError, attach};
pub use context::{CallContext, CallProgress};
pub use http::{HttpServer, HttpSettings};
pub use roots::ClientRoots;
pub use server_file::{RunningServer, ServerFile, ServerFileError};
pub use service::{CallAnswer, JsonObject, MAX_ANSWER_BYTES, ServedTool, ServiceInfo, ToolKind, ToolService};
pub use session::SessionServer;
pub use stdio::{StdioEnd, StdioSettings, own_streams, serve_lines, serve_stdio};
pub use token::{HttpToken, TokenError};
pub use typed::{OnFirstCall, ToolDescription};
