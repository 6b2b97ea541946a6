//! The error of a failed turn: its reason, the caller's options, and the partial result.
//!
//! | to know | see |
//! | --- | --- |
//! | the caller's options: log in, fix the request, use another backend | [`TurnError::kind`], [`ErrorKind`] |
//! | if another backend may take over the turn | [`ErrorKind::could_not_run`], and the effects of [`TurnError::partial`] |
//! | the time at which the same request may be tried again | [`TurnError::retry`], [`Retry::delay`] |
//! | the output, usage and possible effects before the failure | [`TurnError::partial`] |
//! | the end of the process, and the processes that could not be ended | [`TurnError::process`] |
//! | the backends that were skipped or failed before | [`TurnError::skipped`] |
//!
//! # Acting on an error
//!
//! A router tries the backends of a chain itself. A program with one backend decides:
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use nexus_core::{ErrorKind, Retry, TurnError};
//!
//! /// Reaction of a program to a failed turn.
//! #[derive(Debug, PartialEq)]
//! enum Act {
//!     AskAgainIn(Duration),
//!     TellTheUser(&'static str),
//!     MendTheRequest,
//!     GiveUp,
//! }
//!
//! /// The longest wait that makes sense here.
//! const PATIENCE: Duration = Duration::from_secs(120);
//!
//! fn act_on(error: &TurnError) -> Act {
//!     // With any error, work that may have written something must not be repeated.
//!     let may_repeat = error.partial().effects.allow_another_try();
//!     match error.retry().delay(SystemTime::now()) {
//!         Some(wait) if may_repeat && wait <= PATIENCE => return Act::AskAgainIn(wait),
//!         _ => {}
//!     }
//!     match error.kind() {
//!         ErrorKind::NotInstalled => Act::TellTheUser("install the program"),
//!         ErrorKind::Unauthenticated | ErrorKind::Forbidden => Act::TellTheUser("log in again"),
//!         ErrorKind::UsageLimit => Act::TellTheUser("the plan is used up"),
//!         ErrorKind::InvalidRequest | ErrorKind::ContextExceeded | ErrorKind::ModelUnavailable => Act::MendTheRequest,
//!         // Future kinds: show the error. `to_string()` names the backend and the failure.
//!         _ => Act::GiveUp,
//!     }
//! }
//!
//! let limited = TurnError::new(ErrorKind::RateLimited, "alpha".into());
//! let soon = limited.clone().with_retry(Retry::After(Duration::from_secs(20)));
//! assert_eq!(act_on(&soon), Act::AskAgainIn(Duration::from_secs(20)));
//! let late = limited.with_retry(Retry::After(Duration::from_secs(3_600)));
//! assert_eq!(act_on(&late), Act::GiveUp);
//! let logged_out = TurnError::new(ErrorKind::Unauthenticated, "alpha".into());
//! assert_eq!(act_on(&logged_out), Act::TellTheUser("log in again"));
//! ```

mod kind;
mod partial;
mod process;
mod retry;
mod skipped;
mod turn_error;

pub use kind::{ErrorKind, Limit, Phase};
pub use partial::Partial;
pub use process::{ProcessExit, ProcessReport, Survivor};
pub use retry::Retry;
pub use skipped::{Handover, Skipped};
pub use turn_error::{TurnError, TurnErrorReport};
