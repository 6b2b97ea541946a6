//! The tools that a caller's agent drives tasks by: fifteen, each a call of [`Tasks`](crate::Tasks), for any server of
//! [`nexus_mcp`].

mod descriptions;
mod tools;

pub use self::tools::TaskTools;
