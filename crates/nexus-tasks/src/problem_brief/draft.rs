//! A brief as an agent or a caller writes it.

use nexus_core::PathRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a brief may hold. Source: our own bounds, so that what every agent is told stays a small part of any context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefLimits;

impl BriefLimits {
    /// Longest problem, in bytes.
    pub const PROBLEM_BYTES: usize = 16 << 10;
    /// Longest of any other text, in bytes.
    pub const TEXT_BYTES: usize = 2 << 10;
    /// Most criteria, and of each of the other lists.
    pub const LIST: usize = 64;
    /// Most entries of a plan that are not reviews.
    pub const ENTRIES: usize = 12;
    /// Longest id of a criterion, and name of a parallel group, in bytes.
    pub const ID_BYTES: usize = 64;
}

/// A brief as it is handed in. [`ProblemBrief::accept`](crate::ProblemBrief::accept) checks it.
///
/// Paths are relative to the root of the project and mean themselves and what is below; `.` is all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BriefDraft {
    /// What is to be solved, and what is known about it. At most 16 KiB.
    pub problem: String,
    /// What amendments made clear since. Nothing in a brief that is handed in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub clarifications: Vec<String>,
    /// When it is solved: at least one.
    pub criteria: Vec<Criterion>,
    /// What is not part of it, though somebody might think so.
    #[serde(default)]
    pub out_of_scope: Vec<String>,
    /// Paths that may be read. What may be written has to be among them.
    pub read: Vec<String>,
    /// Paths that may be written.
    pub write: Vec<String>,
    /// Paths and globs that must not be touched, whatever else is said: `infra/*.tf`, `.env*`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub do_not_touch: Vec<PathRule>,
    /// The steps of the work, in order: 1 to 12, and reviews beside. A review is added after every step that has none.
    pub plan: Vec<PlanEntryDraft>,
}

/// One condition under which the problem is solved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Its name in verdicts: a letter, and up to 63 letters, digits, `-` and `_`. Not `outcome`.
    pub id: String,
    /// What has to hold, so that it can be tried.
    pub text: String,
}

/// One entry of a plan as it is handed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEntryDraft {
    /// The level of the agent: `execution` changes files, `operations` reads, or a registered tier that is like one of them.
    pub tier: String,
    /// What it does: `implement`, `review`, or a phase of a registered type.
    pub phase: String,
    /// Which type of agent does it: `executor`, `reviewer`, or a registered type.
    pub agent_type: String,
    /// What is to be true after it.
    pub outcome: String,
    /// Ids of the criteria that have to hold after it. After the last step all of them have to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    /// The part of the write paths that is its own. An entry of a parallel group needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_slice: Option<Vec<String>>,
    /// Consecutive entries with the same name here are done at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
}
