//! One attempt at a step: its agents, its review, and what comes of both.
//!
//! [`StepAttempt::run`] has the units do their work, each in a folder of its own; takes what they left, and refuses what they may not
//! write, however it got there; has it reviewed by seats that know nothing of one another; and asks the reflector where the verdict does not
//! advance. What it comes to is a [`StepRecord`](crate::StepRecord). It changes neither the status of the task nor its head.

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
