//! One line of the file.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::RecordedRequest;
use crate::{error::TurnErrorReport, turn::TurnResult};

/// The version of the lines, stored in the first line of a turn.
pub(super) const VERSION: u32 = 1;

/// Types of lines.
pub(super) const BEGAN: &str = "began";
pub(super) const EVENT: &str = "event";
pub(super) const ENDED: &str = "ended";
pub(super) const FORGOTTEN: &str = "forgotten";

/// One line. What is in `data` goes by `kind`, so that a line of a kind that is not known can still be named.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Line {
    /// The turn's name in the file.
    pub(super) turn: String,
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) data: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) cuts: Vec<Cut>,
}

/// Something that is not in the record whole.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Where: the part of the record and the field, such as `event 7: output`.
    pub place: String,
    /// Number of bytes that are left out.
    pub bytes: u64,
}

/// The data of the line that begins a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Began {
    pub(super) version: u32,
    pub(super) name: String,
    pub(super) time: SystemTime,
    pub(super) request: RecordedRequest,
}

/// The data of the line that ends a turn: a result or an error.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) took: Duration,
    /// Lines of the turn that could not be written.
    #[serde(default)]
    pub(super) lost_lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<TurnResult>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<TurnErrorReport>,
}
