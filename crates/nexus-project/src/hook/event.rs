//! Events of a program that runs its own turns, and the answers to them.

use std::path::PathBuf;

/// Something that happens in a session of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookEvent {
    /// A session begins, or goes on after it was interrupted.
    SessionStart,
    /// A person's message is about to be given to the model.
    UserMessage,
    /// An agent begins that the session's own agent started.
    SubagentSpawn,
    /// A subagent has ended.
    SubagentComplete,
    /// A tool is about to be run.
    PreToolUse,
    /// A tool was run.
    PostToolUse,
    /// A session ends.
    SessionEnd,
    /// The model's context was made shorter, or is about to be.
    ContextCompact,
}

impl HookEvent {
    /// All of them.
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

    /// The word for it on a command line.
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
    /// The session, by the program's own name for it.
    pub session: String,
    /// The folder that the program works in.
    pub working_directory: PathBuf,
    /// The agent that it is about, where it is not the session's own.
    pub agent: Option<String>,
    /// The type of that agent.
    pub agent_type: Option<String>,
    /// The person's message.
    pub message: Option<String>,
    /// The tool that is about to be run, or was.
    pub tool: Option<HookTool>,
}

/// A tool of a program's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookTool {
    /// Its name.
    pub name: String,
    /// Its use of files.
    pub use_of_files: UseOfFiles,
    /// The files that it is about, as far as its arguments name them. Relative ones are relative to the working directory.
    pub paths: Vec<PathBuf>,
}

/// A tool's use of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseOfFiles {
    /// It changes none.
    Reads,
    /// It creates, changes or removes the named files.
    Edits,
    /// It may do either: a command, or a tool that is not known.
    Unknown,
}

/// Answer to a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookReply {
    /// Additional context for the model.
    pub context: Option<String>,
    /// Why the tool is not run, for the model: what to do instead.
    pub refusal: Option<String>,
    /// Notes that were not written because another writer kept the lock, for the model and for the log of the program.
    pub skipped: Vec<String>,
}

impl HookReply {
    /// A tool call that is refused.
    pub(crate) fn refused(reason: String) -> Self {
        Self { refusal: Some(reason), ..Self::default() }
    }
}
