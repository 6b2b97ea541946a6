//! The project's tests and probes over trees, with real programs in a real sandbox.
//!
//! Everything here runs as any user, and is worth running as root and as another: `setpriv --reuid=nobody --regid=nogroup
//! --clear-groups` in front of the test program runs it as nobody.

#![cfg(target_os = "linux")]

mod cost;
mod failures;
mod kit;
mod probes;
mod suites;
