//! The server over lines and over streamable HTTP.

mod mcp_http;
mod mcp_lines;
mod support;
