//! HTTP clients of Nexus: proxies, certificate authorities, timeouts, and one error for each cause of a failure.
//!
//! One [`ClientPlan`] builds two kinds of client. [`ServerClient`], over `hyper`, serves the native backends, whose
//! responses are streamed. A `reqwest` client serves sign-in and refresh, whose responses are small. The callers build
//! the requests and decide what an error means.

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
