//! The driver of a line-speaking CLI: the vendor's own program runs the loop, one process per turn, and its lines are
//! read here.
//!
//! What every vendor shares is here: finding the program, its environment, its private home, the process itself with
//! all that it starts, and the run registry that outlives a crash. Each vendor's folder adds its arguments, its wire
//! types, and their translation.

pub(crate) mod adapter;
pub(crate) mod backend;
pub(crate) mod caller_tools;
mod capture;
mod drive;
#[cfg(test)]
mod driver_tests;
pub mod environment;
pub mod executable;
pub(crate) mod lent;
pub mod lines;
#[cfg(test)]
mod mcp_tests;
pub mod private_home;
pub mod process_tree;
pub(crate) mod provider;
pub mod run;
pub mod run_registry;
pub(crate) mod settings;
pub mod spawn;
pub(crate) mod startup;
mod stats;
mod turn;
pub mod version;
