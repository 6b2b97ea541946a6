//! What every turn is, whoever owns its loop: admitted or refused, watched, recorded, its answer checked, and
//! ended as a result or an error. How the loop runs is left to [`delegated`](crate::delegated) and
//! [`native`](crate::native).

mod admission;
mod answer;
mod failure;
mod limits;
mod log;
mod overrun;
mod watch;

pub(crate) use admission::{admit, turn_span};
pub(crate) use answer::{AnswerCheck, Checked};
pub(crate) use failure::Failure;
#[cfg(any(feature = "claude", feature = "codex", feature = "grok"))]
pub(crate) use limits::over_limit_with;
pub(crate) use limits::{out_of_time, over_limit};
pub(crate) use log::TurnLog;
pub(crate) use overrun::Overrun;
pub(crate) use watch::{Watch, sleep_until};
