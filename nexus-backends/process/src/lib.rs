//! One process and all that it starts.
//!
//! | to | see |
//! | --- | --- |
//! | start a program, feed it, read its lines, stop its whole tree | [`spawn`] |
//! | find a program, and learn what is wrong with it before anything is spent | [`executable`], [`version`] |
//! | build its environment from an allow-list | [`environment`] |
//! | give it a private folder | [`private_home`] |
//! | find every process that it started | [`process_tree`] |
//! | hold them together, so that none is left | [`containment`] |
//! | end what a killed host left behind | [`run_registry`] |
//! | run a program that is not trusted, with an allow-list for its file system | [`sandbox`] |
//! | tell a machine in want from one that cannot | [`scarcity`] |
//!
//! What the program says is not read here beyond cutting it into bounded [`lines`]. It knows no vendor and no turn.

mod capture;
pub mod containment;
pub mod disk_watch;
pub mod environment;
pub mod executable;
pub mod lines;
pub mod private_home;
pub mod process_tree;
pub mod run_id;
pub mod run_registry;
pub mod sandbox;
pub mod scarcity;
pub mod spawn;
pub mod version;
