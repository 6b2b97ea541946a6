//! Runs a stage: its agents, their prompts and tools, and the result.
//!
//! This module decides everything that an agent can reach: its prompt, the texts of its tools, and the folders of its
//! sources. No prompt has to ask a panelist to ignore another's rebuttal, because none of its texts and folders contains
//! one.

mod arbiter;
mod ask;
mod framer;
mod panel;
mod shown;

use nexus_core::{Budget, CancelToken, RecordFile};
use nexus_router::Router;
use tokio::sync::watch;

use crate::{
    converge::converge,
    data::DebateData,
    debate::Debate,
    debate_error::{DebateError, DebateErrorKind},
    proceedings::Proceedings,
    record::StageRecord,
    state::DebateState,
};

/// Work-kinds of the agents.
pub(crate) const FRAMER: &str = "framer";
pub(crate) const PANELIST: &str = "panelist";
pub(crate) const ARBITER: &str = "arbiter";

/// Inputs of one stage of a debate.
pub(crate) struct StageRun<'a> {
    pub(crate) router: &'a Router,
    pub(crate) debate: &'a Debate,
    pub(crate) data: &'a DebateData,
    pub(crate) proceedings: &'a Proceedings,
    /// Name of the stage in files.
    pub(crate) stage: &'a str,
    pub(crate) turns: RecordFile,
    pub(crate) budget: Option<Budget>,
    pub(crate) cancel: CancelToken,
    pub(crate) said: watch::Sender<String>,
}

impl StageRun<'_> {
    /// Runs the stage of this state.
    ///
    /// # Errors
    ///
    /// [`StageFailed`](DebateErrorKind::StageFailed) if the agents failed; [`Interrupted`](DebateErrorKind::Interrupted) if
    /// the debate was cancelled; errors of the file system.
    pub(crate) async fn run(&self, state: DebateState) -> Result<StageRecord, DebateError> {
        let record = match state {
            DebateState::Framing => StageRecord::Framing { frame: Box::new(self.frame().await?) },
            DebateState::Opening => StageRecord::Opening { panel: self.openings().await? },
            DebateState::Analysing => StageRecord::Analysing { findings: self.analysis().await? },
            DebateState::CrossExamining { round } => {
                StageRecord::CrossExamining { panel: self.rebuttals(round).await? }
            }
            DebateState::CheckingClose { .. } => {
                // At the maximum number of rounds the debate closes with any answer of the arbiter, so request none.
                let judgement = match self.proceedings.is_at_ceiling() {
                    true => None,
                    false => Some(self.judgement().await?),
                };
                StageRecord::CheckingClose { judgement }
            }
            DebateState::Converging => {
                let standings = self
                    .proceedings
                    .frame()
                    .map(|frame| converge(frame, self.proceedings.positions()))
                    .unwrap_or_default();
                StageRecord::Converging { standings }
            }
            DebateState::Final => StageRecord::Final { panel: self.statements().await? },
            DebateState::Synthesising => {
                StageRecord::Synthesising { interpretation: self.interpretation().await? }
            }
            DebateState::Done | DebateState::Cancelled => {
                return Err(DebateError::wrong_status(
                    format!("the debate is {}", state.name()),
                    state.next_call(),
                ));
            }
        };
        // A stopped stage may have some of its answers, which must not be stored.
        self.check_cancel()?;
        Ok(record)
    }

    fn check_cancel(&self) -> Result<(), DebateError> {
        match self.cancel.is_cancelled() {
            true => Err(DebateError::new(
                DebateErrorKind::Interrupted,
                "the stage was interrupted, and its results are discarded",
                "call debate_advance, which starts it again, unless the debate was cancelled",
            )),
            false => Ok(()),
        }
    }

    /// Returns the error of a failed stage.
    fn failed(&self, reason: impl std::fmt::Display) -> DebateError {
        DebateError::new(
            DebateErrorKind::StageFailed,
            format!("the stage {} failed: {reason}", self.stage),
            "correct the cause, then call debate_advance, which runs the stage again; or call debate_cancel",
        )
    }
}
