//! The MCP server for the caller's tools, as programs of this machine find it.

mod flood;
mod heavy;
mod hostile;
mod independent;
