//! Names on the server: subjects, streams, buckets.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Stream of results and effects.
pub(crate) const RESULTS_STREAM: &str = "NEXUS_RESULTS";
/// Subjects of that stream.
pub(crate) const RESULTS_SUBJECTS: &str = "nexus.result.>";
/// Stream of started keys. It is not a bucket: in a bucket, a message can delete a key, and a started key must stay.
pub(crate) const STARTED_STREAM: &str = "NEXUS_STARTED";
/// Subjects of that stream.
pub(crate) const STARTED_SUBJECTS: &str = "nexus.started.*.*";
/// The bucket in which each worker renews its entry.
pub(crate) const WORKERS_BUCKET: &str = "NEXUS_WORKERS";
/// The bucket of holds.
pub(crate) const HOLDS_BUCKET: &str = "NEXUS_HOLDS";
/// The bucket of slots, whose keys end with their process.
pub(crate) const SLOTS_BUCKET: &str = "NEXUS_SLOTS";
/// The object store of what is too large for a message.
pub(crate) const OBJECTS_BUCKET: &str = "NEXUS_OBJECTS";

/// Priority of a turn among the waiting ones.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Before the others.
    High,
    /// Between the two.
    #[default]
    Normal,
    /// After the others, except for a share: one of four fetches begins with these.
    Low,
}

impl Priority {
    /// All priorities, in the order of fetching.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// Returns the name in subjects and settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Queue of a pool that a turn waits in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The queue for any worker of the pool.
    Any(Priority),
    /// The queue of one worker, which has the conversation that the turn resumes.
    At(String),
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any(priority) => f.write_str(priority.as_str()),
            Self::At(worker) => write!(f, "at-{worker}"),
        }
    }
}

/// Returns the stream of a pool's queue.
pub(crate) fn queue_stream(pool: &str) -> String {
    format!("NEXUS_QUEUE_{pool}")
}

/// Returns the subjects of that stream.
pub(crate) fn queue_subjects(pool: &str) -> String {
    format!("nexus.queue.{pool}.>")
}

/// Returns the pool of a stream with this name. `None`: the stream is not a queue.
pub(crate) fn queue_pool(stream: &str) -> Option<&str> {
    stream.strip_prefix("NEXUS_QUEUE_")
}

/// Returns the lane of a queued turn, by its subject.
pub(crate) fn queued_at(pool: &str, subject: &str) -> Option<Lane> {
    let (lane, _caller) =
        subject.strip_prefix("nexus.queue.")?.strip_prefix(pool)?.strip_prefix('.')?.split_once('.')?;
    match lane.strip_prefix("at-") {
        Some(worker) => Some(Lane::At(worker.to_owned())),
        None => Priority::ALL.into_iter().find(|priority| priority.as_str() == lane).map(Lane::Any),
    }
}

/// Returns the subject to which a caller sends a turn.
pub(crate) fn queue_subject(pool: &str, lane: &Lane, caller: &str) -> String {
    format!("nexus.queue.{pool}.{lane}.{caller}")
}

/// Returns the name of the consumer of a lane.
pub(crate) fn consumer(lane: &Lane) -> String {
    lane.to_string()
}

/// Returns the subjects of a lane's consumer.
pub(crate) fn lane_subjects(pool: &str, lane: &Lane) -> String {
    format!("nexus.queue.{pool}.{lane}.*")
}

/// Returns the subject to which a worker sends the frames of a turn.
pub(crate) fn frames_subject(caller: &str, instance: &str, turn: &str) -> String {
    format!("nexus.event.{caller}.{instance}.{turn}")
}

/// Returns the subjects that a caller subscribes to.
pub(crate) fn all_frames(caller: &str, instance: &str) -> String {
    format!("nexus.event.{caller}.{instance}.*")
}

/// Returns the subject to which a caller sends commands for a worker.
pub(crate) fn control_subject(pool: &str, worker: &str) -> String {
    format!("nexus.control.{pool}.{worker}")
}

/// Returns the subject to which a borrower sends requests for an access token.
pub(crate) fn login_subject(pool: &str, worker: &str) -> String {
    format!("nexus.login.{pool}.{worker}")
}

/// Returns the subject of a turn's stored result.
pub(crate) fn result_subject(caller: &str, turn: &str) -> String {
    format!("nexus.result.{caller}.{turn}.result")
}

/// Returns the subject of a turn's stored effects.
pub(crate) fn effects_subject(caller: &str, turn: &str) -> String {
    format!("nexus.result.{caller}.{turn}.effects")
}

/// Returns the started key of a turn.
pub(crate) fn started_subject(caller: &str, turn: &str) -> String {
    format!("nexus.started.{caller}.{turn}")
}

/// Returns the key of a worker's card.
pub(crate) fn worker_key(pool: &str, worker: &str) -> String {
    format!("{pool}.{worker}")
}

/// Returns the reason why a text cannot be the name of a pool, a worker or a caller, which is one token of a subject. `None`
/// if it can.
pub fn name_fault(text: &str) -> Option<&'static str> {
    token_fault(text)
}

/// Like [`name_fault`], for any token.
pub(crate) fn token_fault(text: &str) -> Option<&'static str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > 64 {
        Some("it is longer than 64 characters")
    } else if !text.bytes().all(is_plain) {
        Some("it has other characters than letters, digits, `-` and `_`")
    } else {
        None
    }
}
