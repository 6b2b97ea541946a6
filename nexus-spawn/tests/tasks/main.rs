//! Tasks through the calls of their callers, with scripted agents.
#![cfg(target_os = "linux")]

mod attacks;
mod create;
mod damage;
mod framing;
mod kill;
mod kit;
mod many;
mod registry;
mod steps;
mod together;
