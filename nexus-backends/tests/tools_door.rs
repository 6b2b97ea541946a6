//! The door to the caller's tools, as programs of this machine find it.

#[path = "tools_door/independent.rs"]
mod independent;
#[path = "tools_door/party.rs"]
mod party;
