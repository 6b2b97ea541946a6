//! The client of the native backends before servers that do what they like.

mod answers;
mod crowd;
mod proxies;
mod runtimes;
mod stage;
mod tls;
