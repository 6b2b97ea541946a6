//! One turn, as it is read back.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Cut, RecordedRequest};
use crate::{
    error::TurnErrorReport,
    turn::{Cost, Effects, EventEnvelope, Provenance, ResumeHandle, TurnEvent, TurnResult, Usage},
};

/// Record of a turn: its request, events, end, backend and cost.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Names the turn in its file.
    pub id: String,
    /// Its purpose, in the words of the recording program, such as a work-kind or a seat.
    pub name: String,
    /// Time of its beginning.
    pub began: SystemTime,
    /// Its request.
    pub request: RecordedRequest,
    /// Its events in order, without text deltas.
    pub events: Vec<EventEnvelope>,
    /// Its end. `None`: it was interrupted, or still runs.
    pub outcome: Option<RecordedOutcome>,
    /// Its duration.
    pub took: Option<Duration>,
    /// Lines of it that could not be written, as on a full disk.
    pub lost_lines: u64,
    /// True if its conversation was deleted afterwards.
    pub is_forgotten: bool,
    /// Parts that are not recorded whole.
    pub cuts: Vec<Cut>,
}

/// End of a recorded turn.
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

    /// Returns the backend that ran it, if its end names one.
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

    /// Returns the token usage: of an ended turn its total; of an interrupted turn the sum of its messages
    /// until then.
    pub fn usage_so_far(&self) -> Usage {
        self.usage().unwrap_or_else(|| {
            let reported = self.events.iter().filter_map(|envelope| match &envelope.event {
                TurnEvent::MessageEnded(message) => message.usage,
                _ => None,
            });
            reported.fold(Usage::new(), |sum, usage| sum.plus(&usage))
        })
    }

    /// Returns its cost, if it is known.
    pub fn cost(&self) -> Option<Cost> {
        let failed = || self.error().and_then(|error| error.partial.cost);
        self.result().and_then(|result| result.cost).or_else(failed)
    }

    /// Returns its possible effects, which are unknown for an interrupted turn.
    pub fn effects(&self) -> Effects {
        let failed = self.error().map(|error| error.partial.effects);
        self.result().map(|result| result.effects).or(failed).unwrap_or(Effects::Unknown)
    }

    /// Returns the handle for resuming: `None` if its conversation was not stored, or was deleted.
    pub fn resume(&self) -> Option<&ResumeHandle> {
        let failed = || self.error().and_then(|error| error.partial.resume.as_ref());
        let handle = self.result().and_then(|result| result.resume.as_ref()).or_else(failed);
        handle.filter(|_| !self.is_forgotten)
    }
}
