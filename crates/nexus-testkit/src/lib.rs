//! Test tools of Nexus, for its own tests and for those of its users.
//!
//! [`sim`] is the vendors' side of the wire: loopback model servers that speak each vendor's API and
//! fail on request. [`issuer`] is the authorization server that a login talks to. [`fake_cli`] is the other
//! side of the process boundary: programs that pose as the vendors' CLIs. `conformance` (feature `conformance`) is the suite that
//! every backend is tested with. `scripted` (feature `scripted`) is a backend whose turns a test scripts. [`real`] finds the
//! vendors' own programs. [`browser`] shows a page in a real browser. `nats` (feature `nats`) starts real servers of NATS.
//! [`child_test`] runs a test in a process of its own, [`effort`] sets how much a test tries,
//! and [`example`] runs an example.

pub mod browser;
pub mod child_test;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod effort;
pub mod escapes;
pub mod example;
pub mod fake_cli;
pub mod issuer;
#[cfg(feature = "judge")]
pub mod judge;
pub mod model_call;
#[cfg(feature = "nats")]
pub mod nats;
pub mod real;
#[cfg(feature = "scripted")]
pub mod scripted;
pub mod sim;
