//! The HTTP client of Nexus: proxies, certificate authorities, timeouts, and one error for each cause of a failure.
//!
//! Shared by the native backends and by sign-in and refresh. Requests, and what an error means for them, are left to the
//! callers.

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
