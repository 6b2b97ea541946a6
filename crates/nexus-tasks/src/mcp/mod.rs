//! The fifteen tools with which a caller's agent drives tasks. Each is a call of [`Tasks`](crate::Tasks), for any server of
//! [`nexus_mcp`].

mod descriptions;
mod tools;

pub use self::tools::TaskTools;
