//! Who speaks.

use std::{fmt, time::Duration};

use nexus_core::{ErrorKind, Retry, Usage};

/// Who speaks: given what was said, the next utterance.
pub trait Voice: fmt::Debug + Send + Sync + 'static {
    /// Answers; `None` if nobody is there.
    fn answer(&self, asked: Asked) -> Option<Utterance>;
}

/// What was said so far.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The prompt.
    pub prompt: String,
    /// The model that is wanted.
    pub model: Option<String>,
    /// The names of the caller's tools.
    pub tools: Vec<String>,
    /// What tools answered, oldest first.
    pub answers: Vec<String>,
}

/// One utterance.
#[derive(Clone, Debug)]
pub struct Utterance {
    /// Before the first piece.
    pub delay: Duration,
    /// Between two pieces.
    pub gap: Duration,
    /// What is said.
    pub pieces: Vec<Piece>,
    /// How it ends.
    pub end: End,
    /// What it cost in tokens, if that is known.
    pub usage: Option<Usage>,
}

/// A piece of an utterance.
#[derive(Clone, Debug)]
pub enum Piece {
    /// Said aloud.
    Word(String),
    /// Thought.
    Thought(String),
    /// A tool of the caller's is wanted.
    Call(Wanted),
    /// Nothing that the parrot knows. It may have been anything.
    Noise(String),
}

/// A tool call, as it was spoken.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Pairs the call with its answer.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: JSON, if it was spoken well.
    pub arguments: String,
}

/// How an utterance ends.
#[derive(Clone, Debug)]
pub enum End {
    /// In good order.
    Done,
    /// In the middle; it may be asked for again.
    Torn,
    /// Never.
    Silence,
    /// Badly.
    Failed {
        /// Named for what the caller can do.
        kind: ErrorKind,
        /// When to try again, if that was said.
        named: Option<Retry>,
    },
}
