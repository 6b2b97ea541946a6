//! The tools that a caller's agent drives debates by: seven, each a call of [`Debates`](crate::Debates), for any server of [`nexus_mcp`].

mod descriptions;
mod tools;

pub use self::tools::DebateTools;
