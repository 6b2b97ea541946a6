//! The door to the caller's tools, as programs of this machine find it.

#[path = "tools_door/heavy.rs"]
mod heavy;
#[path = "tools_door/hostile.rs"]
mod hostile;
#[path = "tools_door/independent.rs"]
mod independent;
#[path = "tools_door/party.rs"]
mod party;
#[path = "tools_door/siege.rs"]
mod siege;
