//! Backends that leave the loop to a vendor's own CLI: one process per turn, whose events we read.
//!
//! What every vendor shares is here: finding the program, its environment, its private home, the
//! process itself with all that it starts, and the ledger that outlives a crash. Each vendor's
//! folder adds its arguments, its wire types, and their translation.

#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod backend;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod caller_tools;
#[cfg(feature = "claude")]
pub mod claude;
#[cfg(feature = "codex")]
pub mod codex;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
#[cfg_attr(
    not(all(feature = "claude", feature = "codex", feature = "grok")),
    allow(dead_code, reason = "each vendor uses its part of the seam")
)]
mod conversation;
#[cfg(all(test, any(feature = "claude", feature = "codex", feature = "grok")))]
mod door_tests;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod drive;
#[cfg(all(test, any(feature = "claude", feature = "codex", feature = "grok")))]
mod driver_tests;
pub mod environment;
pub mod executable;
#[cfg(feature = "grok")]
pub mod grok;
pub mod ledger;
#[cfg(any(feature = "codex", feature = "grok"))]
mod lender;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
#[cfg_attr(not(feature = "grok"), allow(dead_code, reason = "one vendor has a way to renew"))]
mod lent;
pub mod lines;
pub mod process_tree;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod queue;
mod record;
pub mod run;
pub mod run_home;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod settings;
pub mod spawn;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod tally;
#[cfg(feature = "tools-door")]
pub mod tools_door;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
mod turn;
pub mod version;
