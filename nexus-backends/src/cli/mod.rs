//! The driver of a line-speaking CLI: the vendor's own program runs the loop, and this module reads its lines.
//!
//! ```text
//!   CliBackend                rejects requests that cannot run, before anything is spent
//!     turn                    the processes of one turn: repair, a fresh start; the outcome
//!       drive                 one process: lines in, events out, limits, stop
//!         nexus_process       the process itself: input, output, end of its whole tree
//!       Translator (yours)    a state machine without input or output of its own
//! ```
//!
//! To add a CLI, implement [`Cli`] (its capabilities, and the preparation of one process) and [`Translator`] (its lines
//! into [`Step`]s), and pass the `Cli` to [`CliBackend`]. The driver provides everything that all CLIs share: time
//! limits by phase, counted limits, cancellation, the polite stop and the signals, validation of structured output, the
//! caller's tools over MCP, private homes, and the sweep of a killed host's remains.
//!
//! # Adding a CLI
//!
//! `examples/custom_cli/` of the repository adds a fourth CLI and passes the conformance suite (`tests/custom_cli.rs`).
//! Rules for an implementation:
//!
//! - **Capabilities** are promises. Omit a capability that the CLI does not have: the driver rejects such requests
//!   before they cost anything. A counted limit that the driver enforces is
//!   [`Enforcement::Ours`](nexus_core::Enforcement::Ours). The driver sees a call only when its line arrives, and the
//!   program runs ahead. If the program accepts a limit as an argument, pass it as well.
//! - **[`Cli::prepare`]** finds the program ([`Executable`]), builds its environment from an allow-list and the
//!   variables that the request names ([`TurnPlan::environment`]), and creates a private home ([`TurnPlan::home`]).
//!   Pass prompt and instructions through standard input or a file of the home, because every user of the machine can
//!   read an argument list.
//! - **Standard input** stays open for [`Step::write`] and for a repair in the same process if the invocation has
//!   [`StdinMode::Open`]. The driver closes it after the outcome.
//! - **An output schema** that is [`Instructed`](nexus_core::OutputSupport::Instructed) must be in the prompt, in the
//!   words of [`OutputSchema::instruction`](nexus_core::OutputSchema::instruction). The driver checks the answer and
//!   calls [`Translator::repair`].
//! - **The outcome** comes from a line, through [`Step::answered`] or [`Step::failed`], or from the program's record,
//!   in [`Translator::ended`]. Without either, the turn is [`Crashed`](nexus_core::ErrorKind::Crashed), with any exit
//!   code.
//! - **Phases** select the limit on silence. Start with [`Phase::Start`](nexus_core::Phase::Start). After the request
//!   to the model the phase is [`FirstByte`](nexus_core::Phase::FirstByte), while the model writes
//!   [`Model`](nexus_core::Phase::Model), and while a tool runs [`Tool`](nexus_core::Phase::Tool).
//! - **A conversation** that outlives its turn is stored below `$NEXUS_HOME/sessions`. [`Cli::kept`] returns its files
//!   for a handle. The driver deletes them, but never while a turn uses them.
//! - **An unknown line** is an [`Unrecognized`](nexus_core::turn::Unrecognized) event, and is never dropped.

mod asks;
pub(crate) mod backend;
pub(crate) mod caller_tools;
mod contract;
mod drive;
#[cfg(test)]
mod driver_tests;
mod enforcement;
pub(crate) mod kept;
#[cfg(test)]
mod mcp_tests;
pub(crate) mod number;
pub(crate) mod permission;
pub(crate) mod process_sandbox;
pub(crate) mod program_files;
pub(crate) mod program_start;
#[cfg(feature = "login")]
pub(crate) mod provider;
pub(crate) mod refusal;
pub(crate) mod sandboxed_program;
pub(crate) mod settings;
#[cfg(test)]
mod slow_host_tests;
pub(crate) mod startup;
mod state;
pub(crate) mod stats;
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
