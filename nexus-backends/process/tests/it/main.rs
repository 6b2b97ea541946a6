//! Processes, and the sandbox, against real programs: a shell, what a shell can start, and this test program itself.
//!
//! Everything here runs as any user, and is worth running as root and as another: `setpriv --reuid=65534 --regid=65534
//! --clear-groups` in front of the test program runs it as nobody.

mod program;
#[cfg(target_os = "linux")]
mod sandbox;
mod spawn;
