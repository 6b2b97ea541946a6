//! The integration tests of the exporter.

mod losses;
mod measurements;
#[allow(dead_code, reason = "the conformance program uses all of it")]
mod receiver;
