//! State of a debate, and every transition of it.

use nexus_work::WorkspaceState;
use serde::{Deserialize, Serialize};

use crate::closing_rule::RoundDecision;

/// State of a debate in `status.json`.
///
/// ```text
/// Framing → Opening → Analysing → CrossExamining ⇄ CheckingClose → Converging → Final → Synthesising → Done
/// ```
///
/// Each state except `Done` and `Cancelled` is a stage that has not run yet, and may be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum DebateState {
    /// The framer composes the panel and the claims.
    Framing,
    /// Each panelist submits its positions, independent of the others.
    Opening,
    /// The arbiter analyses the disagreements.
    Analysing,
    /// Panelists answer the case against them.
    CrossExamining {
        /// The round, from 1.
        round: u32,
    },
    /// The engine decides if another round follows.
    CheckingClose {
        /// The round, from 1.
        round: u32,
    },
    /// Claims become converged, contested or abstained.
    Converging,
    /// Panelists submit final statements.
    Final,
    /// The arbiter interprets the debate, and the record is composed.
    Synthesising,
    /// All stages have ended.
    Done,
    /// The caller cancelled the debate.
    Cancelled,
}

nexus_work::answer_words! {
    /// Status of a debate, in a word: the stage that is next or runs, or how the debate ended.
    pub enum DebateStatusWord {
        /// The framer composes the panel and the claims.
        Framing = "framing",
        /// Each panelist takes its positions.
        Opening = "opening",
        /// The arbiter names the disagreements between the panelists.
        Analysing = "analysing",
        /// Panelists answer the case against them.
        CrossExamining = "cross_examining",
        /// The arbiter and the closing rule decide if another round follows.
        CheckingClose = "checking_close",
        /// The engine derives the agreement and the dissent of the panel from the positions.
        Converging = "converging",
        /// Panelists have the last word.
        Final = "final",
        /// The record is written.
        Synthesising = "synthesising",
        /// All stages have ended.
        Done = "done",
        /// The caller cancelled the debate.
        Cancelled = "cancelled",
    }
}

/// Events that change the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebateEvent {
    /// The stage has ended, and its record is written.
    StageDone,
    /// The check of a round has ended, with this decision, and its record is written.
    RoundDecided(RoundDecision),
    /// The caller cancels the debate.
    Cancelled,
}

/// An event that does not fit the state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the debate is {status}")]
pub struct WrongStage {
    /// The state, by its name in files.
    pub status: &'static str,
}

impl DebateState {
    /// Returns the state after `event`.
    ///
    /// # Errors
    ///
    /// [`WrongStage`] if the event does not fit the state.
    pub fn after(self, event: DebateEvent) -> Result<Self, WrongStage> {
        use DebateEvent::{RoundDecided, StageDone};
        Ok(match (self, event) {
            (Self::Done | Self::Cancelled, _) => return Err(WrongStage { status: self.name() }),
            (_, DebateEvent::Cancelled) => Self::Cancelled,
            (Self::Framing, StageDone) => Self::Opening,
            (Self::Opening, StageDone) => Self::Analysing,
            (Self::Analysing, StageDone) => Self::CrossExamining { round: 1 },
            (Self::CrossExamining { round }, StageDone) => Self::CheckingClose { round },
            (Self::CheckingClose { round }, RoundDecided(RoundDecision::Continue)) => {
                Self::CrossExamining { round: round.saturating_add(1) }
            }
            (Self::CheckingClose { .. }, RoundDecided(RoundDecision::Close)) => Self::Converging,
            (Self::Converging, StageDone) => Self::Final,
            (Self::Final, StageDone) => Self::Synthesising,
            (Self::Synthesising, StageDone) => Self::Done,
            _ => return Err(WrongStage { status: self.name() }),
        })
    }

    /// Returns the word in files and answers.
    pub fn word(self) -> DebateStatusWord {
        match self {
            Self::Framing => DebateStatusWord::Framing,
            Self::Opening => DebateStatusWord::Opening,
            Self::Analysing => DebateStatusWord::Analysing,
            Self::CrossExamining { .. } => DebateStatusWord::CrossExamining,
            Self::CheckingClose { .. } => DebateStatusWord::CheckingClose,
            Self::Converging => DebateStatusWord::Converging,
            Self::Final => DebateStatusWord::Final,
            Self::Synthesising => DebateStatusWord::Synthesising,
            Self::Done => DebateStatusWord::Done,
            Self::Cancelled => DebateStatusWord::Cancelled,
        }
    }

    /// Returns the name in files and answers.
    pub fn name(self) -> &'static str {
        self.word().as_str()
    }

    /// Returns the round of the state, if it has one.
    pub fn round(self) -> Option<u32> {
        match self {
            Self::CrossExamining { round } | Self::CheckingClose { round } => Some(round),
            _ => None,
        }
    }

    /// Returns the next call of a caller in this state.
    pub fn next_call(self) -> &'static str {
        match self {
            Self::Done => "read it with debate_result; debate_spawn_task creates a task that follows from it",
            Self::Cancelled => {
                "create another debate with debate_create; debate_result returns the record \
                so far"
            }
            _ => "call debate_advance",
        }
    }
}

impl WorkspaceState for DebateState {
    const KIND: &'static str = "debate";

    fn is_final(&self) -> bool {
        matches!(self, Self::Done | Self::Cancelled)
    }
}
