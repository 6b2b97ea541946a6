//! What is Codex's alone, with the real program before the simulator. The common promises are the conformance
//! suite's.
//!
//! Needs `NEXUS_REAL_CODEX`, root, and a namespace in which only loopback is:
//!
//! `real-clis/in-namespace cargo test -p nexus-turn-backends --test codex_real -- --ignored`

#![cfg(all(unix, feature = "codex"))]

#[path = "support/ran.rs"]
mod ran;
#[path = "support/stage.rs"]
mod stage;
#[path = "codex_real/support.rs"]
mod support;

#[path = "codex_real/account.rs"]
mod account;
#[path = "codex_real/record.rs"]
mod record;
#[path = "codex_real/sandbox.rs"]
mod sandbox;
#[path = "codex_real/tools.rs"]
mod tools;
