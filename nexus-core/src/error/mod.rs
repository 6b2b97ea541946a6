//! Why a turn failed, what to do about it, and what it had produced.

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
pub use skipped::Skipped;
pub use turn_error::{TurnError, TurnErrorReport};
