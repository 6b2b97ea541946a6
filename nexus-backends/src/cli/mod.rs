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
//!
//! # Adding a CLI
//!
//! `examples/custom_cli/` of the repository adds a fourth CLI and passes the conformance suite (`tests/custom_cli.rs`). What to
//! know before you start:
//!
//! - **Capabilities** are promises. Leave out what you do not keep: the driver refuses such requests before anything is spent.
//!   A counted limit that the driver keeps is [`Enforcement::Ours`](nexus_core::Enforcement::Ours). It sees a call when its line
//!   comes, and the program runs ahead: where the program takes a limit as an argument, pass it as well.
//! - **[`Cli::prepare`]** finds the program ([`Executable`]), builds its environment from
//!   an allow-list and the variables that the request names ([`TurnPlan::environment`]), and makes a private home
//!   ([`TurnPlan::home`]).
//!   Prompt and instructions go through standard input or a file of the home: an argument list is for every user of the machine
//!   to read.
//! - **Standard input** stays open for [`Step::write`] and for a repair in the same process if the invocation says
//!   [`StdinMode::Open`]. The driver closes it once there is an outcome.
//! - **An output schema** that is [`Instructed`](nexus_core::OutputSupport::Instructed) is yours to put into the prompt, as
//!   [`OutputSchema::instruction`](nexus_core::OutputSchema::instruction) words it. The driver checks the answer and calls
//!   [`Translator::repair`].
//! - **The outcome** comes from a line, by [`Step::answered`] or [`Step::failed`], or from the record that the program left, in
//!   [`Translator::ended`]. Without one the turn is [`Crashed`](nexus_core::ErrorKind::Crashed), whatever the exit code.
//! - **Phases** choose the limit on silence: start with [`Phase::Start`](nexus_core::Phase::Start); once the model is asked,
//!   [`FirstByte`](nexus_core::Phase::FirstByte); while it writes, [`Model`](nexus_core::Phase::Model); while a tool runs,
//!   [`Tool`](nexus_core::Phase::Tool).
//! - **A conversation** that outlives its turn is kept below `$NEXUS_HOME/sessions`; [`Cli::kept`] says where, by its handle, and the driver
//!   deletes it and keeps turns and that apart.
//! - **A line that you do not understand** is an [`Unrecognized`](nexus_core::turn::Unrecognized) event, never dropped.

pub(crate) mod backend;
pub(crate) mod caller_tools;
mod contract;
mod drive;
#[cfg(test)]
mod driver_tests;
pub(crate) mod kept;
#[cfg(test)]
mod mcp_tests;
pub(crate) mod number;
pub(crate) mod permission;
#[cfg(feature = "login")]
pub(crate) mod provider;
pub(crate) mod refusal;
pub(crate) mod settings;
#[cfg(test)]
mod slow_host_tests;
pub(crate) mod startup;
mod state;
mod stats;
pub(crate) mod sweep;
mod translator;
mod turn;
pub(crate) mod versions;

pub use backend::CliBackend;
pub use caller_tools::CallerTools;
pub use contract::{Attempt, Cli, Prepared, TurnPlan};
pub use kept::KeptConversation;
pub use startup::StartupWait;
pub use translator::{OutputLine, ProcessEnd, Repair, Step, StopRequest, Translator, TurnOutcome};

// Types for implementing `Cli::prepare`.
pub use nexus_process::{
    environment::Environment,
    executable::Executable,
    private_home::PrivateHome,
    spawn::{Invocation, StdinMode},
};
