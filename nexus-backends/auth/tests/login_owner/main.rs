//! One owner per login: whatever happens to tasks, processes, disks, clocks and issuers, no refresh token is spent
//! twice, and none that was handed out is lost.

#![cfg(unix)]

mod clocks;
mod door;
mod failures;
mod issuer;
mod kills;
mod lock;
mod processes;
mod refusals;
mod renewed;
mod stage;
mod trouble;
mod unsaved;
