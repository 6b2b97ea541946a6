//! Hooks: what is done when something happens in a program that works on the project.
//!
//! | event | what is done |
//! | --- | --- |
//! | [`SessionStart`](HookEvent::SessionStart) | makes `.nexus/`, and tells where the work stands, what an earlier session left, what the project knows, and which skills there are |
//! | [`UserMessage`](HookEvent::UserMessage) | begins the skill of a tag, or does what an inline tag asks for |
//! | [`SubagentSpawn`](HookEvent::SubagentSpawn) | notes the agent, and tells it what the project knows |
//! | [`SubagentComplete`](HookEvent::SubagentComplete) | notes its end and the files that it changed, also in the task that it does |
//! | [`PreToolUse`](HookEvent::PreToolUse) | refuses an edit while there are no tasks, or where the tasks or the input cannot be read |
//! | [`PostToolUse`](HookEvent::PostToolUse) | notes the call in `state/tool-log.jsonl` |
//! | [`SessionEnd`](HookEvent::SessionEnd) | ends the session's skill, until the same session goes on |
//! | [`ContextCompact`](HookEvent::ContextCompact) | tells again what was lost: where the work stands, the active skill, the rules |

mod agents;
mod call;
mod event;
mod handle;
mod input;
mod log;
mod path;
mod rule;
mod untold;

pub use agents::{AgentTracker, TrackedAgent};
pub use call::{HookCall, HookOutput};
pub use event::{HookEvent, HookInput, HookReply, HookTool, UseOfFiles};
pub use log::ToolLogLine;
pub(crate) use untold::Untold;
