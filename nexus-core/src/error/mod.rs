//! Why a turn failed, what to do about it, and what it had produced.
//!
//! | to know | see |
//! | --- | --- |
//! | what to do: log in, mend the request, ask another backend | [`TurnError::kind`], [`ErrorKind`] |
//! | whether another backend may take the turn over | [`ErrorKind::could_not_run`], and the effects of [`TurnError::partial`] |
//! | when the same request may be tried again | [`TurnError::retry`], [`Retry::delay`] |
//! | what was produced, used and perhaps written before it failed | [`TurnError::partial`] |
//! | how the process ended, and what outlived it | [`TurnError::process`] |
//! | who was asked before | [`TurnError::skipped`] |
//!
//! # Acting on an error
//!
//! A router passes a turn on along a chain of backends by itself. A program with one backend decides:
//!
//! ```
//! use std::time::{Duration, SystemTime};
//! use nexus_core::{ErrorKind, Retry, TurnError};
//!
//! /// What a program does about a turn that failed.
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
//!     // Work that may have been written must not be done twice, whatever the error is.
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
//!         // The enum grows: what is not known is shown. `to_string()` names the backend and what happened.
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
