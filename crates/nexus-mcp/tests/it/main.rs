//! The server over lines and over streamable HTTP.

#[cfg(feature = "client")]
mod client;
mod mcp_http;
mod mcp_lines;
mod support;
