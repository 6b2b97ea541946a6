//! One turn, as it is read back.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cut, RecordedRequest};
use crate::{
    error::TurnErrorReport,
    turn::{Cost, Effects, EventEnvelope, Provenance, ResumeHandle, TurnEvent, TurnResult, Usage},
};

/// What a turn was: what was asked, what happened, how it ended, who ran it, and what it cost.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Names the turn in its file.
    pub id: String,
    /// What it was for, in the words of whoever wrote it down, such as a work-kind or a seat.
    pub name: String,
    /// When it began.
    pub began: SystemTime,
    /// What was asked.
    pub request: RecordedRequest,
    /// What happened, but for pieces of text, in order.
    pub events: Vec<EventEnvelope>,
    /// How it ended. `None`: it was interrupted, or runs.
    pub outcome: Option<RecordedOutcome>,
    /// How long it took.
    pub took: Option<Duration>,
    /// Lines of it that could not be written, as on a full disk.
    pub lost_lines: u64,
    /// Whether its conversation was deleted afterwards.
    pub is_forgotten: bool,
    /// What is not here whole.
    pub cuts: Vec<Cut>,
}

/// How a recorded turn ended.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedOutcome {
    /// Well.
    Result(Box<TurnResult>),
    /// Badly.
    Error(Box<TurnErrorReport>),
    /// In a way that this version cannot read.
    Unknown(Value),
}

impl TurnRecord {
    /// The answer, if it ended well.
    pub fn result(&self) -> Option<&TurnResult> {
        match &self.outcome {
            Some(RecordedOutcome::Result(result)) => Some(result),
            _ => None,
        }
    }

    /// Why it failed, if it did.
    pub fn error(&self) -> Option<&TurnErrorReport> {
        match &self.outcome {
            Some(RecordedOutcome::Error(error)) => Some(error),
            _ => None,
        }
    }

    /// Who ran it, as far as it ended in a way that says so.
    pub fn provenance(&self) -> Option<&Provenance> {
        match (self.result(), self.error()) {
            (Some(result), _) => Some(&result.provenance),
            (_, Some(error)) => error.partial.provenance.as_ref(),
            _ => None,
        }
    }

    /// Tokens used, as far as it ended.
    pub fn usage(&self) -> Option<Usage> {
        let failed = self.error().map(|error| error.partial.usage);
        self.result().map(|result| result.usage).or(failed)
    }

    /// Tokens used: of a turn that ended, those; of one that was cut off, what its messages reported until then.
    pub fn usage_so_far(&self) -> Usage {
        self.usage().unwrap_or_else(|| {
            let reported = self.events.iter().filter_map(|envelope| match &envelope.event {
                TurnEvent::MessageEnded(message) => message.usage,
                _ => None,
            });
            reported.fold(Usage::new(), |sum, usage| sum.plus(&usage))
        })
    }

    /// What it cost, where that is known.
    pub fn cost(&self) -> Option<Cost> {
        let failed = || self.error().and_then(|error| error.partial.cost);
        self.result().and_then(|result| result.cost).or_else(failed)
    }

    /// What it may have changed. Of a turn that was interrupted nobody knows.
    pub fn effects(&self) -> Effects {
        let failed = self.error().map(|error| error.partial.effects);
        self.result().map(|result| result.effects).or(failed).unwrap_or(Effects::Unknown)
    }

    /// How to go on from it: `None` where its conversation was not kept, or is forgotten.
    pub fn resume(&self) -> Option<&ResumeHandle> {
        let failed = || self.error().and_then(|error| error.partial.resume.as_ref());
        let handle = self.result().and_then(|result| result.resume.as_ref()).or_else(failed);
        handle.filter(|_| !self.is_forgotten)
    }
}
