//! The sandbox against real programs: a shell, what a shell can start, and this test program itself.
//!
//! Everything here runs as any user, and is worth running as root and as another: `setpriv --reuid=65534 --regid=65534
//! --clear-groups` in front of the test program runs it as nobody. Where there is no sandbox, the tests say so and pass;
//! with `NEXUS_TEST_SANDBOX=required` they fail.

#![cfg(target_os = "linux")]

mod canaries;
mod ends;
mod failures;
mod kernel;
mod limits;
mod places;
mod projects;
mod support;
