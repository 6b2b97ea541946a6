//! One thing that happened in a workspace.

use std::time::SystemTime;

use nexus_files::rfc3339;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that happened in a workspace: a line of `events.jsonl`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceEvent {
    /// Its number: 1 for the first, and one more for each that follows, without a gap.
    pub sequence: u64,
    /// Time of the entry. The clock may have stepped back in between; the numbers never do.
    #[serde(with = "rfc3339::as_micros")]
    pub time: SystemTime,
    /// Kind of the event, in the caller's words.
    pub kind: String,
    /// Further data of the caller: any JSON.
    #[serde(default)]
    pub data: Value,
}
