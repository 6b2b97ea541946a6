//! The conformance suite: one set of promises, tested with every backend.
//!
//! A backend's author writes a [`Subject`], which runs the backend against a scripted model, and turns each case into a
//! test:
//!
//! ```no_run
//! mod my_backend {
//!     nexus_testkit::conformance_tests!(nexus_testkit::conformance::reference::ReferenceSubject);
//! }
//! ```
//!
//! or calls [`run`] for a [`Report`]. Each case has a neutral script for the model, a request, and checks. In addition,
//! every turn of every case is checked for the promises of all turns. Events are in sequence and time, deltas add up
//! to their message, and tool events are in order. Tool calls and effects agree, and everything shown was declared.
//! No credential is in an event, in the result, in a span or in a log.
//!
//! Cases that work with tools use those of the backend's harness. If it brings none, the same cases run with
//! tools that the suite offers as the caller's. So they cover a vendor's CLI and a native loop.
//!
//! The session decides on every call of a caller's tool. So the cases on scopes are the same for a native loop and for a
//! program that calls the tools over MCP, down to the log of decisions.
//!
//! A case on a feature that the backend does not declare is skipped, and another case proves that a request
//! for it is refused. A case that ran must prove every declared feature.
//!
//! [`mod@reference`] is a backend that passes. [`DelegatedSubject`] and [`NativeSubject`] build a backend from a
//! configuration, and run it against a fake program or a simulated vendor.

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
