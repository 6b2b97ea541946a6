//! The agent before a client of the official crate, and before lines that no client would send.

mod kit;

mod configuration;
mod hostile;
mod permissions;
mod prompts;
mod questions;
mod servers;
mod sessions;
