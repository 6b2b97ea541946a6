//! What is Grok Build's alone, with the real program against the simulator. The common promises are the
//! conformance suite's.
//!
//! Needs `NEXUS_REAL_GROK`, bubblewrap, root, and a namespace in which only loopback is:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-backends --test it grok_real:: -- --ignored`

mod support;

mod account;
mod answer;
mod lease;
mod sandbox;
mod session;
mod tools;
