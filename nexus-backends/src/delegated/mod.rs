//! Backends that leave the loop to a vendor's own CLI: one process per turn, whose events we read.
//!
//! What every vendor shares is here: finding the program, its environment, its private home, the
//! process itself with all that it starts, and the ledger that outlives a crash. Each vendor's
//! folder adds its arguments, its wire types, and their translation.

pub mod environment;
pub mod executable;
pub mod ledger;
pub mod lines;
pub mod process_tree;
mod record;
pub mod redact;
pub mod run;
pub mod run_home;
pub mod spawn;
