//! The HTTP clients of Nexus: proxies, certificate authorities, timeouts, and one error for each cause of a failure.
//!
//! One plan, two clients: [`ServerClient`] over `hyper`, for the native backends, whose answers stream; and the one of
//! `reqwest` for sign-in and refresh, whose answers are small. Requests, and what an error means for them, are left to the
//! callers.

mod client;
mod connector;
mod fetch;
mod gunzip;
mod loopback;
mod network;
mod problem;
mod proxy;
mod server_client;

#[cfg(feature = "oauth")]
pub(crate) use self::fetch::read_into;
pub use self::fetch::{ReadError, read_whole};
pub use self::loopback::is_loopback;
pub use self::network::Network;
pub use self::server_client::{IncomingBody, ServerClient};
pub use self::{
    client::ClientPlan,
    problem::{HttpError, HttpProblem},
};
