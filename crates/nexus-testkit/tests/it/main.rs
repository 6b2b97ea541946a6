//! The integration tests of the testkit.

mod conformance;
mod conformance_wrong;
mod fake_cli;
mod issuer;
mod sim;
#[cfg(feature = "nexus-sim")]
mod sim_program;
