//! Conversations through the public API.

mod faults;
mod forks;
mod kit;
mod processes;
mod turns;
