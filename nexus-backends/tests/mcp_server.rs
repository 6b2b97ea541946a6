//! The MCP server for the caller's tools, as programs of this machine find it.

#[path = "mcp_server/flood.rs"]
mod flood;
#[path = "mcp_server/heavy.rs"]
mod heavy;
#[path = "mcp_server/hostile.rs"]
mod hostile;
#[path = "mcp_server/independent.rs"]
mod independent;
#[path = "mcp_server/party.rs"]
mod party;
