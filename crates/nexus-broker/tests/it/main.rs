//! Agents, messages, memory, skills and triggers; and every store of messages, held against one suite.

#[cfg(target_os = "linux")]
mod agents;
mod example;
mod memory;
mod messages;
mod skills;
#[cfg(unix)]
mod store;
mod triggers;
