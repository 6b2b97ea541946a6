//! Hooks: what is done when something happens in a program that works on the project.
//!
//! | event | what is done |
//! | --- | --- |
//! | [`SessionStart`](HookEvent::SessionStart) | makes `.nexus/`, and tells where the work stands, what an earlier session left, what the project knows, and which skills there are |
//! | [`UserMessage`](HookEvent::UserMessage) | begins the skill of a tag, or does what an inline tag asks for |
//! | [`SubagentSpawn`](HookEvent::SubagentSpawn) | notes the agent, and tells it what the project knows |
//! | [`SubagentComplete`](HookEvent::SubagentComplete) | notes its end and the files that it changed, also in the task that it does |
//! | [`PreToolUse`](HookEvent::PreToolUse) | refuses an edit while there are no tasks |
//! | [`PostToolUse`](HookEvent::PostToolUse) | notes the call in `state/tool-log.jsonl` |
//! | [`SessionEnd`](HookEvent::SessionEnd) | ends the session's skill, until the same session goes on |
//! | [`ContextCompact`](HookEvent::ContextCompact) | tells again what was lost: where the work stands, the active skill, the rules |

mod agents;
mod event;
mod handle;
mod log;
mod untold;

pub use agents::{AgentTracker, TrackedAgent};
pub use event::{HookEvent, HookInput, HookReply, HookTool, UseOfFiles};
pub use log::ToolLogLine;
pub(crate) use untold::Untold;
