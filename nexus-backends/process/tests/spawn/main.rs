//! The spawn atom against real processes: a shell and what a shell can start.
//!
//! Everything here runs as any user. What root may do and others may not (`tree` and `homes`) is
//! worth running as both: `setpriv --reuid=65534 --regid=65534 --clear-groups` in front of the
//! test program runs it as nobody.

mod core_dumps;
mod greeting;
mod homes;
mod host_killed;
mod marks;
mod pipes;
mod run_registry;
mod scarcity;
mod support;
mod survivors;
mod tree;
mod want;
