//! Agents, messages, memory and triggers; and every store of messages, held against one suite.

#[cfg(target_os = "linux")]
mod agents;
mod example;
mod memory;
mod messages;
#[cfg(unix)]
mod store;
mod triggers;
