//! One owner per login: whatever happens to tasks, processes, disks, clocks and issuers, no refresh token is spent
//! twice, and none that was handed out is lost.

mod clocks;
mod failures;
mod issuer;
mod kills;
mod lock;
mod pending_write;
mod processes;
mod refusals;
mod renewed;
mod sign_in_out;
mod stage;
mod trouble;
