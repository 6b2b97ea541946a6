//! An event of a workspace.

use std::time::SystemTime;

use nexus_files::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An event of a workspace: a line of `events.jsonl`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceEvent {
    /// Number of the event: 1 for the first, without gaps.
    pub sequence: u64,
    /// Time of the event. The clock may step back between two events; the numbers never do.
    #[serde(with = "rfc3339::as_micros")]
    pub time: SystemTime,
    /// Kind of the event, in the caller's words.
    pub kind: String,
    /// Further data of the caller: any JSON.
    #[serde(default)]
    pub data: Value,
}
