//! A brief as an agent or a caller writes it.

use nexus_core::PathRule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bounds of a brief. Source: our own, so that the prompt of every agent stays a small part of any context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BriefLimits;

impl BriefLimits {
    /// Longest problem, in bytes.
    pub const PROBLEM_BYTES: usize = 16 << 10;
    /// Longest of any other text, in bytes.
    pub const TEXT_BYTES: usize = 2 << 10;
    /// Maximum number of criteria, and maximum number of items of each other list.
    pub const LIST: usize = 64;
    /// Maximum number of entries of a plan that are not reviews.
    pub const ENTRIES: usize = 12;
    /// Longest id of a criterion, and name of a parallel group, in bytes.
    pub const ID_BYTES: usize = 64;
}

/// A brief as an agent submits it. [`ProblemBrief::accept`](crate::ProblemBrief::accept) checks it.
///
/// Paths are relative to the root of the project and include everything below them; `.` is the whole project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BriefDraft {
    /// The problem to solve, with known facts about it. At most 16 KiB.
    pub problem: String,
    /// Clarifications by later amendments. Empty in a submitted brief.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub clarifications: Vec<String>,
    /// Success criteria, all of which hold when the problem is solved: at least one.
    pub criteria: Vec<Criterion>,
    /// Topics that are not part of it, though a reader might expect them to be.
    #[serde(default)]
    pub out_of_scope: Vec<String>,
    /// Paths that may be read. They must include all paths of `write`.
    pub read: Vec<String>,
    /// Paths that may be written.
    pub write: Vec<String>,
    /// Paths and globs that must not be touched, regardless of the other lists: `infra/*.tf`, `.env*`.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    pub do_not_touch: Vec<PathRule>,
    /// The steps of the work, in order: 1 to 12, not counting reviews. A review is added after every step that changes files and has none.
    pub plan: Vec<PlanEntryDraft>,
}

/// One condition under which the problem is solved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Its name in verdicts: a letter, and up to 63 letters, digits, `-` and `_`. Not `outcome`.
    pub id: String,
    /// The condition, worded so that it can be tested.
    pub text: String,
}

/// One entry of a plan as an agent submits it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanEntryDraft {
    /// The level of the agent: `execution` changes files, `operations` reads, or a registered tier that is like one of them.
    pub tier: String,
    /// Phase of the work: `implement`, `review`, or a phase of a registered type.
    pub phase: String,
    /// Type of the agent: `executor`, `reviewer`, or a registered type.
    pub agent_type: String,
    /// Outcome: a statement that is true after this entry.
    pub outcome: String,
    /// Ids of the criteria that have to hold after it. After the last step all criteria have to hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<String>,
    /// Part of the write paths that belongs to this entry alone. Required for an entry of a parallel group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_slice: Option<Vec<String>>,
    /// Name of the parallel group. Consecutive entries with the same name run at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_group: Option<String>,
}
