//! The seven tools with which a caller's agent runs debates. Each is a call of [`Debates`](crate::Debates), for any server
//! of [`nexus_mcp`].

mod descriptions;
mod tools;

pub use self::tools::DebateTools;
