//! How Nexus itself speaks HTTP: what a client is made from, and what the errors of sockets, TLS and HTTP come down to.
//!
//! Shared by the native backends, which ask for a model's answer, and by sign-in and renewal, which ask an issuer.
//! What is asked, and what an error means for it, is theirs.

mod client;
#[cfg(feature = "login")]
mod fetch;
#[cfg(feature = "login")]
mod loopback;
mod network;
mod problem;
mod proxy;

#[cfg(feature = "native")]
pub(crate) use self::client::ClientError;
pub(crate) use self::client::ClientPlan;
#[cfg(feature = "login")]
pub(crate) use self::fetch::{ReadError, read_whole};
#[cfg(feature = "login")]
pub(crate) use self::loopback::is_loopback;
pub use self::network::Network;
pub(crate) use self::problem::Problem;
