//! The agent of the parrot.

use std::{fmt, time::Duration};

use nexus_core::{ErrorKind, Retry, Usage};

/// The agent: returns the next utterance of a conversation.
pub trait Voice: fmt::Debug + Send + Sync + 'static {
    /// Answers. `None` if the agent cannot be reached.
    fn answer(&self, asked: Asked) -> Option<Utterance>;
}

/// The conversation so far.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The prompt.
    pub prompt: String,
    /// The requested model.
    pub model: Option<String>,
    /// The names of the caller's tools.
    pub tools: Vec<String>,
    /// Tool results, oldest first.
    pub answers: Vec<String>,
}

/// One utterance.
#[derive(Clone, Debug)]
pub struct Utterance {
    /// Delay before the first piece.
    pub delay: Duration,
    /// Pause between two pieces.
    pub gap: Duration,
    /// Contents of the utterance.
    pub pieces: Vec<Piece>,
    /// End of the utterance.
    pub end: End,
    /// Usage in tokens, if it is known.
    pub usage: Option<Usage>,
}

/// A piece of an utterance.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Text of the answer.
    Word(String),
    /// Thinking.
    Thought(String),
    /// A call of one of the caller's tools.
    Call(Wanted),
    /// Output that the parrot does not understand. It may have been a call.
    Noise(String),
}

/// A tool call as the agent wrote it.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Pairs the call with its answer.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Arguments: JSON, if they are well-formed.
    pub arguments: String,
}

/// End of an utterance.
#[derive(Clone, Debug)]
pub enum End {
    /// Complete.
    Done,
    /// Broken off in the middle; the call may be repeated.
    Torn,
    /// No end: the agent falls silent.
    Silence,
    /// A failure.
    Failed {
        /// Kind of the failure.
        kind: ErrorKind,
        /// Time of the retry, if the agent named one.
        named: Option<Retry>,
    },
}
