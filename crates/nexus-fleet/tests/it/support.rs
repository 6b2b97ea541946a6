//! Real servers, and what stands between them and their clients.

pub(crate) mod acceptor;
pub(crate) mod frames;
pub(crate) mod proxy;
pub(crate) mod relay;
#[allow(dead_code, reason = "the rest is for `tests/conformance`")]
pub(crate) mod remote;
