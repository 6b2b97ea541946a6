//! The integration tests.

mod agents;
mod attempts;
mod bands;
mod briefings;
mod briefs;
mod example;
mod framing;
mod gates;
mod mcp_tools;
mod report;
mod spawn_tasks;
mod support;
mod takeover;
mod task_checks;
mod transitions;
mod trap;
mod verdicts;
