//! Conversations through the public API.

mod faults;
mod forks;
mod journal;
mod kit;
mod processes;
mod turns;
