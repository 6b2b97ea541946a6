//! What is Claude Code's alone, with the real programs against the simulator. The common promises are the
//! conformance suite's.
//!
//! Needs `NEXUS_REAL_CLAUDE`, which names any number of programs, root, and a namespace in which only
//! loopback is and `api.anthropic.com` is 127.0.0.1:
//!
//! `real/clis/in-namespace --host api.anthropic.com=127.0.0.1 cargo test -p nexus-turn-backends --test it claude_real:: -- --ignored`

mod support;

mod account;
mod answer;
mod asked_tools;
mod clouds;
mod first_party;
mod request;
mod sandbox;
mod session;
mod tools;
