//! What is Codex's alone, with the real program against the simulator. The common promises are the conformance
//! suite's.
//!
//! Needs `NEXUS_REAL_CODEX`, root, and a namespace in which only loopback is:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it codex_real:: -- --ignored`

mod support;

mod account;
mod record;
mod sandbox;
mod tools;
