//! Events of programs that run their own turns, and the answers to these events.

use std::path::PathBuf;

/// Event in a session of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A session begins, or resumes after an interruption.
    SessionStart,
    /// A person's message will be sent to the model.
    UserMessage,
    /// The agent of the session starts a subagent.
    SubagentSpawn,
    /// A subagent has ended.
    SubagentComplete,
    /// A tool is about to run.
    PreToolUse,
    /// A tool has run.
    PostToolUse,
    /// A session ends.
    SessionEnd,
    /// The model's context was shortened, or is about to be.
    ContextCompact,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 8] = [
        Self::SessionStart,
        Self::UserMessage,
        Self::SubagentSpawn,
        Self::SubagentComplete,
        Self::PreToolUse,
        Self::PostToolUse,
        Self::SessionEnd,
        Self::ContextCompact,
    ];

    /// Returns the word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionStart => "session_start",
            Self::UserMessage => "user_message",
            Self::SubagentSpawn => "subagent_spawn",
            Self::SubagentComplete => "subagent_complete",
            Self::PreToolUse => "pre_tool_use",
            Self::PostToolUse => "post_tool_use",
            Self::SessionEnd => "session_end",
            Self::ContextCompact => "context_compact",
        }
    }
}

/// A program's report of an event.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookInput {
    /// Session id of the program.
    pub session: String,
    /// Folder in which the program works.
    pub working_directory: PathBuf,
    /// Subagent of the event. `None`: the agent of the session.
    pub agent: Option<String>,
    /// Type of the subagent.
    pub agent_type: Option<String>,
    /// The person's message.
    pub message: Option<String>,
    /// Tool that is about to run, or has run.
    pub tool: Option<HookTool>,
}

/// A tool of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookTool {
    /// Name of the tool.
    pub name: String,
    /// Effect of the tool on files.
    pub use_of_files: UseOfFiles,
    /// Files in the arguments of the tool. Relative paths start at the working directory.
    pub paths: Vec<PathBuf>,
}

/// Effect of a tool on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOfFiles {
    /// The tool changes no file.
    Reads,
    /// The tool creates, changes or removes the named files.
    Edits,
    /// The effect is unknown: a command, or an unknown tool.
    Unknown,
}

/// Answer to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// Additional context for the model.
    pub context: Option<String>,
    /// Reason why the tool must not run, for the model, with advice.
    pub refusal: Option<String>,
    /// Notes that were skipped because another writer owned the lock, for the model and for the log of the program.
    pub skipped: Vec<String>,
}

impl HookReply {
    /// Returns the reply that rejects a tool call.
    pub(crate) fn refused(reason: String) -> Self {
        Self { refusal: Some(reason), ..Self::default() }
    }
}
