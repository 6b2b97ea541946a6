//! The spawn atom.

#[cfg(target_os = "linux")]
mod core_dumps;
mod greeting;
mod homes;
mod host_killed;
#[cfg(target_os = "linux")]
mod marks;
mod pipes;
mod run_registry;
#[cfg(target_os = "linux")]
mod scarcity;
mod support;
mod survivors;
mod tree;
mod unread;
#[cfg(target_os = "linux")]
mod want;
