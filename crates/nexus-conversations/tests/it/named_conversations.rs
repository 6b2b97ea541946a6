//! Conversations through the public API.

mod faults;
mod forks;
mod items;
mod journal;
mod kit;
mod processes;
mod recorded;
mod turns;
