//! Tasks through the calls of their callers, with scripted agents.
#![cfg(target_os = "linux")]

mod answers;
mod around;
mod attacks;
mod create;
mod damage;
mod disk;
mod ending;
mod follow_ups;
mod framing;
mod kill;
mod kit;
mod many;
mod projects;
mod registry;
mod steps;
mod together;
