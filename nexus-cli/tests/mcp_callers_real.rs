//! Tasks and debates with the real programs of vendors on both sides: Claude Code, Codex and Grok call the tools of `nexus mcp spawn` and
//! `nexus mcp debate`, registered by the lines of their `--help`, and inside they do the work. All models are loopback servers.
//!
//! Needs `NEXUS_REAL_CLAUDE`, `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, git and bubblewrap, root, and a namespace with loopback alone:
//!
//! `real-clis/in-namespace cargo test -p nexus-turn-cli --test mcp_callers_real -- --ignored`

#[path = "mcp_callers_real/caller.rs"]
mod caller;
#[path = "support/debaters.rs"]
mod debaters;
#[path = "mcp_callers_real/models.rs"]
mod models;
#[path = "mcp_callers_real/stage.rs"]
mod stage;
#[path = "mcp_callers_real/walk.rs"]
mod walk;

#[path = "mcp_callers_real/debate.rs"]
mod debate;
#[path = "mcp_callers_real/failures.rs"]
mod failures;
#[path = "mcp_callers_real/headline.rs"]
mod headline;
