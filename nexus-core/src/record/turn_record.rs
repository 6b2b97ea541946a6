//! The record of one turn, as read from a file.

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
    /// Id of the turn in the file.
    pub id: String,
    /// Purpose of the turn, in the words of the recording program, such as a work-kind or a seat.
    pub name: String,
    /// Time at which the turn began.
    pub began: SystemTime,
    /// Request of the turn.
    pub request: RecordedRequest,
    /// Events of the turn in order, without text deltas.
    pub events: Vec<EventEnvelope>,
    /// End of the turn. `None` if the turn was interrupted or still runs.
    pub outcome: Option<RecordedOutcome>,
    /// Duration of the turn.
    pub took: Option<Duration>,
    /// Number of lines that could not be written, for example because the disk was full.
    pub lost_lines: u64,
    /// True if the turn's conversation was deleted afterwards.
    pub is_forgotten: bool,
    /// Parts of the record that were cut or left out.
    pub cuts: Vec<Cut>,
}

/// End of a recorded turn.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedOutcome {
    /// The turn succeeded.
    Result(Box<TurnResult>),
    /// The turn failed.
    Error(Box<TurnErrorReport>),
    /// An end that this version cannot read.
    Unknown(Value),
}

impl TurnRecord {
    /// Returns the result, if the turn succeeded.
    pub fn result(&self) -> Option<&TurnResult> {
        match &self.outcome {
            Some(RecordedOutcome::Result(result)) => Some(result),
            _ => None,
        }
    }

    /// Returns the error, if the turn failed.
    pub fn error(&self) -> Option<&TurnErrorReport> {
        match &self.outcome {
            Some(RecordedOutcome::Error(error)) => Some(error),
            _ => None,
        }
    }

    /// Returns the provenance of the turn, if its end has one.
    pub fn provenance(&self) -> Option<&Provenance> {
        match (self.result(), self.error()) {
            (Some(result), _) => Some(&result.provenance),
            (_, Some(error)) => error.partial.provenance.as_ref(),
            _ => None,
        }
    }

    /// Returns the token usage, if the turn ended.
    pub fn usage(&self) -> Option<Usage> {
        let failed = self.error().map(|error| error.partial.usage);
        self.result().map(|result| result.usage).or(failed)
    }

    /// Returns the token usage. Of an ended turn it is the total; of an interrupted turn it is the sum of the
    /// recorded messages.
    pub fn usage_so_far(&self) -> Usage {
        self.usage().unwrap_or_else(|| {
            let reported = self.events.iter().filter_map(|envelope| match &envelope.event {
                TurnEvent::MessageEnded(message) => message.usage,
                _ => None,
            });
            reported.fold(Usage::new(), |sum, usage| sum.plus(&usage))
        })
    }

    /// Returns the cost of the turn, if it is known.
    pub fn cost(&self) -> Option<Cost> {
        let failed = || self.error().and_then(|error| error.partial.cost);
        self.result().and_then(|result| result.cost).or_else(failed)
    }

    /// Returns the possible effects of the turn. They are unknown for an interrupted turn.
    pub fn effects(&self) -> Effects {
        let failed = self.error().map(|error| error.partial.effects);
        // The turn may have acted between its last recorded event and the interruption.
        self.result().map(|result| result.effects).or(failed).unwrap_or(Effects::Unknown)
    }

    /// Returns the resume handle. `None` if the conversation was not stored or was deleted.
    pub fn resume(&self) -> Option<&ResumeHandle> {
        let failed = || self.error().and_then(|error| error.partial.resume.as_ref());
        let handle = self.result().and_then(|result| result.resume.as_ref()).or_else(failed);
        handle.filter(|_| !self.is_forgotten)
    }
}
