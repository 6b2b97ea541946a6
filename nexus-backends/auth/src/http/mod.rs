//! How Nexus itself speaks HTTP: what a client is made from, and what the errors of sockets, TLS and HTTP come down to.
//!
//! Shared by the native backends, which ask for a model's answer, and by sign-in and renewal, which ask an issuer.
//! What is asked, and what an error means for it, is theirs.

mod client;
mod fetch;
mod loopback;
mod network;
mod problem;
mod proxy;

pub use self::fetch::{ReadError, read_whole};
pub use self::loopback::is_loopback;
pub use self::network::Network;
pub use self::problem::ClientError;
pub use self::{client::ClientPlan, problem::HttpProblem};
