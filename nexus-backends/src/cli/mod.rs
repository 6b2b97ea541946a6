//! The driver of a line-speaking CLI: the vendor's own program runs the loop, one process per turn, and its lines are
//! read here.
//!
//! What every vendor shares is here: finding the program, its environment, its private home, the process itself with
//! all that it starts, and the run registry that outlives a crash. Each vendor's folder adds its arguments, its wire
//! types, and their translation.

pub(crate) mod adapter;
pub(crate) mod backend;
pub(crate) mod caller_tools;
mod drive;
#[cfg(test)]
mod driver_tests;
pub(crate) mod lent;
#[cfg(test)]
mod mcp_tests;
pub(crate) mod provider;
pub(crate) mod settings;
pub(crate) mod startup;
mod stats;
mod turn;
