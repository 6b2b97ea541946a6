//! One attempt at a step: its agents, its review, and what comes of both.

mod attempt;
mod watcher;
mod work;

pub use self::{
    attempt::{AttemptPlace, StepAttempt, StepInterrupted},
    watcher::{AgentEnding, AgentProgress, StepAgent, StepRole, StepWatcher},
    work::{ReviewOutcome, StepReview, StepWork},
};
