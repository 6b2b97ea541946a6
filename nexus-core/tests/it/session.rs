//! A session: what it allows, what it denies, and what it records.

mod approval;
mod asked;
mod budget;
mod decisions;
mod end;
mod remote;
mod scope;
