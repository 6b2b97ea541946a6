//! One attempt at a step: its agents, its review, and the record of both.
//!
//! [`StepAttempt::run`] runs the units, each in a folder of its own. It takes their changes, and rejects changes outside of their scope,
//! however they were made. Seats that do not see each other review the work. If the verdict does not advance, a reflector answers it. The
//! result is a [`StepRecord`](crate::StepRecord). Neither the status of the task nor its head changes.

mod agent_evidence;
mod agents;
mod attempt;
mod blocking;
mod earlier;
mod reflection_turn;
mod review_gate;
mod run;
mod tools;
mod units;
mod watcher;
mod work;
mod write_guard;

pub use self::{
    attempt::{AttemptPlace, StepAttempt, StepInterrupted},
    watcher::{AgentEnding, AgentProgress, StepAgent, StepRole, StepWatcher},
    work::{ReviewOutcome, StepReview, StepWork},
};
