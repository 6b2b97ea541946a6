//! The door to the caller's tools before clients that nobody here wrote: the conformance suite of the Model Context
//! Protocol, and the client of its SDK for Python.
//!
//! Needs `NEXUS_REAL_MCP_CONFORMANCE` and `NEXUS_REAL_MCP_PYTHON` (see `real-servers/README.md`), and Node:
//!
//! `real-clis/in-namespace cargo test -p nexus-turn-backends --test tools_door_real -- --ignored`

#[path = "tools_door_real/bearer.rs"]
mod bearer;
#[path = "tools_door_real/conformance.rs"]
mod conformance;
#[path = "tools_door/party.rs"]
#[allow(dead_code, reason = "shared with another test")]
mod party;
#[path = "tools_door_real/python.rs"]
mod python;
