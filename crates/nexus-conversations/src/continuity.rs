//! Continuity of a turn with the earlier turns of its conversation.

use nexus_core::{ResumeHandle, TurnError, TurnResult};
use serde::Serialize;

use crate::{conversation_error::ConversationError, not_carried::NotCarried, seed::DEFAULT_SEED_BYTES};

/// Reaction if the vendor's own handle cannot be used: another backend takes the turn, the vendor no longer has the
/// conversation, or the conversation was forked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenLost {
    /// End the turn with [`ConversationLost`](nexus_core::ErrorKind::ConversationLost).
    Fail,
    /// Run the turn without the earlier messages, with a warning event. The messages stay stored.
    Fresh,
    /// Show the model the earlier messages as a text before the prompt. A warning event names the missing parts.
    #[default]
    Reseed,
}

/// Continuity of a turn with the earlier turns.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "continuity")]
pub enum Continuity {
    /// The conversation had no earlier turn.
    First,
    /// The vendor's own handle continued the conversation.
    Resumed,
    /// The turn did not continue the conversation, because of [`WhenLost::Fail`]: no backend ran, or the backend that ran no
    /// longer has the conversation.
    Lost {
        /// Reason why the vendor's handle was not used.
        reason: String,
    },
    /// The model did not see the earlier messages.
    Fresh {
        /// Reason why the vendor's handle was not used.
        reason: String,
    },
    /// The model saw the earlier messages as a text before the prompt.
    Reseeded {
        /// Reason why the vendor's handle was not used.
        reason: String,
        /// Number of messages that the model was shown.
        messages: u64,
        /// Parts of the conversation that the model did not see.
        not_carried: NotCarried,
    },
}

/// Result of a conversation's turn.
#[non_exhaustive]
#[derive(Debug)]
pub struct ConversationOutcome {
    /// Result of the turn itself.
    pub outcome: Result<TurnResult, TurnError>,
    /// Continuity of the turn with the earlier turns.
    pub continuity: Continuity,
    /// True if the turn is stored; false if it failed before any message or call. After an error the earlier
    /// turns are intact.
    pub stored: Result<bool, ConversationError>,
    /// Handles of vendors' conversations that this one no longer uses: the earlier handle, and the handle of a
    /// turn that failed or is not stored. The vendors may still have these conversations: see
    /// [`Router::forget`](nexus_router::Router::forget).
    pub superseded: Vec<ResumeHandle>,
}

/// Options for continuing the earlier turns.
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
    /// Returns the default options: re-seeds, with at most 256 KiB of earlier messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the reaction if the vendor's handle cannot be used.
    #[must_use]
    pub fn when_lost(mut self, when_lost: WhenLost) -> Self {
        self.when_lost = when_lost;
        self
    }

    /// Sets the maximum size of the earlier messages that a model sees, in bytes.
    #[must_use]
    pub fn seed_bytes(mut self, bytes: usize) -> Self {
        self.seed_bytes = bytes;
        self
    }
}
