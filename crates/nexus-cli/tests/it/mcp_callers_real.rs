//! Tasks and debates with the real programs of vendors on both sides: Claude Code, Codex and Grok call the tools of `nexus mcp spawn` and
//! `nexus mcp debate`, registered by the lines of their `--help`, and inside they do the work. All models are loopback servers.
//!
//! Needs `NEXUS_REAL_CLAUDE`, `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, git and bubblewrap, root, and a namespace with loopback alone:
//!
//! `real/clis/in-namespace cargo test -p nexus-turn-cli --test it mcp_callers_real:: -- --ignored`

mod caller;
mod models;
mod stage;
mod walk;

mod debate;
mod failures;
mod headline;
