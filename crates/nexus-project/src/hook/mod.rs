//! Hooks: actions on events of a program that works on the project.
//!
//! | event | action |
//! | --- | --- |
//! | [`SessionStart`](HookEvent::SessionStart) | creates `.nexus/`, and reports the state of the work, the leftovers of an earlier session, the project's knowledge, and the skills |
//! | [`UserMessage`](HookEvent::UserMessage) | begins the skill of a tag, or executes an inline tag |
//! | [`SubagentSpawn`](HookEvent::SubagentSpawn) | records the agent, and sends it the project's knowledge |
//! | [`SubagentComplete`](HookEvent::SubagentComplete) | records its end and the files that it changed, also in its task |
//! | [`PreToolUse`](HookEvent::PreToolUse) | rejects an edit if there are no tasks, or if the tasks or the input cannot be read |
//! | [`PostToolUse`](HookEvent::PostToolUse) | records the call in `state/tool-log.jsonl` |
//! | [`SessionEnd`](HookEvent::SessionEnd) | suspends the session's skill until the session resumes |
//! | [`ContextCompact`](HookEvent::ContextCompact) | repeats what the model lost: the state of the work, the active skill, the rules |

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
