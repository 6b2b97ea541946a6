//! One line of a record file.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecordedRequest;
use crate::{error::TurnErrorReport, turn::TurnResult};

/// Version of the format, stored in the first line of a turn.
pub(super) const VERSION: u32 = 1;

/// Types of lines.
pub(super) const BEGAN: &str = "began";
pub(super) const EVENT: &str = "event";
pub(super) const ENDED: &str = "ended";
pub(super) const FORGOTTEN: &str = "forgotten";

/// One line. `kind` determines the content of `data`, so that a reader can name a line of an unknown kind.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// Id of the turn in the file.
    pub(super) turn: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) data: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cuts: Vec<Cut>,
}

/// A part of the record that was cut or left out.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Position: the part of the record and the field, such as `event 7: output`.
    pub place: String,
    /// Number of omitted bytes.
    pub bytes: u64,
}

/// Data of the line that begins a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Began {
    pub(super) version: u32,
    pub(super) name: String,
    pub(super) time: SystemTime,
    pub(super) request: RecordedRequest,
}

/// Data of the line that ends a turn: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) took: Duration,
    /// Number of the turn's lines that could not be written.
    #[serde(default)]
    pub(super) lost_lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<TurnResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<TurnErrorReport>,
}
