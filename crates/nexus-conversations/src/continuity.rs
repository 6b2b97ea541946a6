//! How a turn of a conversation goes on from those before it.

use nexus_core::{ResumeHandle, TurnError, TurnResult};
use serde::Serialize;

use crate::{conversation_error::ConversationError, not_carried::NotCarried, seed::DEFAULT_SEED_BYTES};

/// What to do where the model that takes a turn cannot go on by its vendor's own handle: another backend takes the turn, the vendor no longer
/// has the conversation, or it was forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenLost {
    /// End the turn with [`ConversationLost`](nexus_core::ErrorKind::ConversationLost).
    Fail,
    /// Run the turn without the earlier messages, with a warning event. They stay stored.
    Fresh,
    /// Show the model the earlier messages as a text before the prompt, with a warning event that says what they lack.
    #[default]
    Reseed,
}

/// How a turn of a conversation went on from those before it.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "continuity")]
pub enum Continuity {
    /// It was the first turn.
    First,
    /// By the vendor's own handle.
    Resumed,
    /// Not at all, as [`WhenLost::Fail`] says: no backend ran, or the one that did no longer has the conversation.
    Lost {
        /// Why the vendor's handle was not used.
        reason: String,
    },
    /// Not at all: its model was not shown the earlier messages.
    Fresh {
        /// Why the vendor's handle was not used.
        reason: String,
    },
    /// The earlier messages stood before its prompt.
    Reseeded {
        /// Why the vendor's handle was not used.
        reason: String,
        /// How many messages its model was shown.
        messages: u64,
        /// What of the conversation it was not shown.
        not_carried: NotCarried,
    },
}

/// How a turn of a conversation ended.
#[non_exhaustive]
#[derive(Debug)]
pub struct ConversationOutcome {
    /// How the turn ended.
    pub outcome: Result<TurnResult, TurnError>,
    /// How it went on from the turns before it.
    pub continuity: Continuity,
    /// Whether the turn is stored: not if it failed before anything was said or called. An error: what was stored before is whole.
    pub stored: Result<bool, ConversationError>,
    /// Handles of vendors' conversations that this one does not go on with: the former one, and that of a turn that failed or is not
    /// stored. The vendors may still have them: see [`Router::forget`](nexus_router::Router::forget).
    pub superseded: Vec<ResumeHandle>,
}

/// How a turn goes on from those before it.
#[derive(Clone, Copy, Debug)]
pub struct ConversationOptions {
    pub(crate) when_lost: WhenLost,
    pub(crate) seed_bytes: usize,
}

impl Default for ConversationOptions {
    fn default() -> Self {
        Self { when_lost: WhenLost::default(), seed_bytes: DEFAULT_SEED_BYTES }
    }
}

impl ConversationOptions {
    /// Re-seeds, with at most 256 KiB of earlier messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what to do where the vendor's handle cannot be used.
    #[must_use]
    pub fn when_lost(mut self, when_lost: WhenLost) -> Self {
        self.when_lost = when_lost;
        self
    }

    /// Sets how many bytes of earlier messages a model is shown.
    #[must_use]
    pub fn seed_bytes(mut self, bytes: usize) -> Self {
        self.seed_bytes = bytes;
        self
    }
}
