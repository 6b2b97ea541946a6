//! What is Grok Build's alone, with the real program before the simulator. The common promises are the
//! conformance suite's.
//!
//! Needs `NEXUS_REAL_GROK`, bubblewrap, root, and a namespace in which only loopback is:
//!
//! `real-clis/in-namespace cargo test -p nexus-turn-backends --test grok_real -- --ignored`

#![cfg(all(unix, feature = "grok"))]

#[path = "support/ran.rs"]
mod ran;
#[path = "support/scripted_source.rs"]
mod scripted_source;
#[path = "support/stage.rs"]
mod stage;
#[path = "grok_real/support.rs"]
mod support;

#[path = "grok_real/account.rs"]
mod account;
#[path = "grok_real/answer.rs"]
mod answer;
#[path = "grok_real/lease.rs"]
mod lease;
#[path = "grok_real/sandbox.rs"]
mod sandbox;
#[path = "grok_real/session.rs"]
mod session;
#[path = "grok_real/tools.rs"]
mod tools;
