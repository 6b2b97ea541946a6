//! The MCP server for the caller's tools before clients that nobody here wrote: the conformance suite of the Model Context
//! Protocol, and the client of its SDK for Python.
//!
//! Needs `NEXUS_REAL_MCP_CONFORMANCE` and `NEXUS_REAL_MCP_PYTHON` (see `real/servers/README.md`), and Node:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it mcp_server_real:: -- --ignored`

mod bearer;
mod conformance;
mod python;
