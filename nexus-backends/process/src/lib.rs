//! One process and everything that it starts.
//!
//! | task | module |
//! | --- | --- |
//! | start a program, feed it, read its lines, stop its whole tree | [`spawn`] |
//! | find a program, and explain its faults before the turn costs anything | [`executable`], [`version`] |
//! | build its environment from an allow-list | [`environment`] |
//! | give it a private folder | [`private_home`] |
//! | find every process that it started | [`process_tree`] |
//! | contain them, so that none is left | [`containment`] |
//! | end the processes that a killed host left | [`run_registry`] |
//! | run an untrusted program, with an allow-list for its file system | [`sandbox`] |
//! | distinguish a resource shortage from a missing ability | [`scarcity`] |
//!
//! The crate splits output into bounded [`lines`], and does not interpret it further. It knows no vendor and no turn.

mod capture;
pub mod containment;
pub mod disk_watch;
pub mod environment;
pub mod executable;
mod guarded_folder;
pub mod lines;
pub mod private_home;
pub mod process_tree;
pub mod run_id;
pub mod run_registry;
pub mod sandbox;
pub mod scarcity;
pub mod spawn;
pub mod version;
