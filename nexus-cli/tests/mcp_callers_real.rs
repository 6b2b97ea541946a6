//! Tasks with the real programs of vendors on both sides: Claude Code, Codex and Grok call the tools of `nexus mcp spawn`, which they
//! were registered with by the lines of its `--help`, and inside Claude Code and Codex do the work. All models are loopback servers.
//!
//! Needs `NEXUS_REAL_CLAUDE`, `NEXUS_REAL_CODEX` and `NEXUS_REAL_GROK`, git and bubblewrap, root, and a namespace with loopback alone:
//!
//! `real-clis/in-namespace cargo test -p nexus-turn-cli --test task_callers_real -- --ignored`

#[path = "task_callers_real/caller.rs"]
mod caller;
#[path = "task_callers_real/models.rs"]
mod models;
#[path = "task_callers_real/stage.rs"]
mod stage;
#[path = "task_callers_real/walk.rs"]
mod walk;

#[path = "task_callers_real/failures.rs"]
mod failures;
#[path = "task_callers_real/headline.rs"]
mod headline;
