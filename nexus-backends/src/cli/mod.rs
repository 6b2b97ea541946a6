//! The driver of a line-speaking CLI: the vendor's own program runs the loop, and its lines are read here.
//!
//! ```text
//!   CliBackend                refuses what cannot be run, before anything is spent
//!     turn                    the processes of one turn: repair, a fresh start; how it ends
//!       drive                 one process: lines in, events out, limits, stop
//!         nexus_process       the process itself: fed, drained, its whole tree stopped
//!       Translator (yours)    a state machine without input or output of its own
//! ```
//!
//! To add a CLI, implement [`Cli`] (what it can do, how one process is prepared) and [`Translator`] (its lines into
//! [`Step`]s), and hand the `Cli` to [`CliBackend`]. Everything that must be the same for all is done here: limits of
//! time by phase, counted limits, cancellation, the polite stop and the signals, the check of structured output, the
//! caller's tools over MCP, private homes, and the sweep of what a killed host left behind.

mod backend;
pub(crate) mod caller_tools;
mod contract;
mod drive;
#[cfg(test)]
mod driver_tests;
#[cfg(test)]
mod mcp_tests;
#[cfg(any(feature = "codex", feature = "grok"))]
pub(crate) mod provider;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
pub(crate) mod settings;
pub(crate) mod startup;
mod state;
mod stats;
mod translator;
mod turn;

pub use backend::CliBackend;
pub use caller_tools::CallerTools;
pub use contract::{Attempt, Cli, Prepared, TurnPlan};
pub use startup::StartupWait;
pub use translator::{ProcessEnd, Repair, Step, StopRequest, Translator, TurnOutcome};
