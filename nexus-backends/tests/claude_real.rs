//! What is Claude Code's alone, with the real programs before the simulator. The common promises are the
//! conformance suite's.
//!
//! Needs `NEXUS_REAL_CLAUDE`, which names any number of programs, root, and a namespace in which only
//! loopback is and `api.anthropic.com` is 127.0.0.1:
//!
//! `real-clis/in-namespace --host api.anthropic.com=127.0.0.1 cargo test -p nexus-turn-backends --test claude_real -- --ignored`

#![cfg(all(unix, feature = "claude"))]

#[path = "support/ran.rs"]
mod ran;
#[path = "support/stage.rs"]
mod stage;
#[path = "claude_real/support.rs"]
mod support;

#[path = "claude_real/account.rs"]
mod account;
#[path = "claude_real/answer.rs"]
mod answer;
#[path = "claude_real/asked_tools.rs"]
mod asked_tools;
#[path = "claude_real/first_party.rs"]
mod first_party;
#[path = "claude_real/request.rs"]
mod request;
#[path = "claude_real/sandbox.rs"]
mod sandbox;
#[path = "claude_real/session.rs"]
mod session;
#[path = "claude_real/tools.rs"]
mod tools;
