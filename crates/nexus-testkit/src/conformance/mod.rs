//! The conformance suite: one set of promises, held against every backend.
//!
//! A backend's author writes a [`Subject`], which sets the backend before a scripted model, and makes one
//! test of each case:
//!
//! ```no_run
//! mod my_backend {
//!     nexus_testkit::conformance_tests!(nexus_testkit::conformance::reference::ReferenceSubject);
//! }
//! ```
//!
//! or calls [`run`] for a [`Report`]. Each case has a neutral script for the model, a request, and checks; on
//! top, every turn of every case is held against what is true of all turns: sequence and time of events,
//! deltas that add up to their message, the order of tool events, tool calls and effects that agree, nothing
//! shown that was not declared, no credential in anything that comes back, in a span or in a log.
//!
//! Cases that work with tools use those of the backend's harness. Where it brings none, the same cases run with
//! tools that the suite offers as the caller's; so they hold for a vendor's CLI and for a loop of one's own.
//!
//! Every call of a caller's tool is decided on by the session, so the cases about scopes are the same for a loop of one's
//! own and for a program that calls the tools over MCP, down to the log of decisions.
//!
//! A case about something that the backend does not declare is skipped, and another case proves that a request
//! for it is refused. Everything that is declared must be shown by a case that ran.
//!
//! [`mod@reference`] is a backend that passes. [`DelegatedSubject`] and [`NativeSubject`] set a backend that is
//! built from configuration before a fake program or a simulated vendor.

mod case;
mod case_tools;
mod cases;
mod catalogue;
mod contract;
mod delegated;
pub mod failure_table;
mod feature;
mod finding;
#[cfg(feature = "harness")]
mod harness;
mod kind_subject;
mod model;
mod native;
mod processes;
pub mod reference;
mod remote_subject;
mod renewable_token;
mod report;
mod run;
mod shell;
mod subject;
mod telemetry;
mod toolbelt;
mod trial;
mod watch;

pub use case::Case;
pub use catalogue::CASES;
pub use delegated::DelegatedSubject;
pub use feature::Feature;
pub use finding::{Finding, Verdict};
#[cfg(feature = "harness")]
pub use harness::{PROGRAM_CASES, harness, program_trials, run_trials, trials};
pub use kind_subject::KindSubject;
pub use model::ScriptedModel;
pub use native::NativeSubject;
pub use remote_subject::RemoteSubject;
pub use renewable_token::RenewableToken;
pub use report::{Entry, Outcome, Report};
pub use run::{hold, hold_declarations, run, run_case};
pub use subject::{
    Departure, MARK_VARIABLE, Setting, Stage, StageError, Subject, TOKEN_VARIABLE, Timing, ToolList,
};
pub use trial::Trial;

pub use crate::model_call::{Line, ModelCall, Witness};
