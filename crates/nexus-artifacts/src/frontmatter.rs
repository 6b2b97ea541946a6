//! Frontmatter of each kind. A closed format rejects unknown keys. Plans and summaries are open, because agents store keys
//! of their own there.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{MilestoneId, SliceId, SliceTaskId};

/// Declares an enum of words that can be parsed and has a JSON Schema.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$word_about:meta])* $word:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$word_about])* #[serde(rename = $text)] $word,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$word,)*];

            /// Returns the word in files.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }

            /// Returns the value of a word.
            pub fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Progress of a task or a slice.
    WorkStatus {
        /// Work has not begun.
        Pending = "pending",
        /// An agent or a person works on it.
        InProgress = "in-progress",
        /// Done.
        Done = "done",
        /// The work will not be done.
        Skipped = "skipped",
        /// Suspended until it is resumed.
        Parked = "parked",
    }
}

words! {
    /// Result of a milestone.
    MilestoneStatus {
        /// Every criterion passed.
        Verified = "verified",
        /// A criterion failed.
        Failed = "failed",
        /// No criterion failed, but at least one is deferred or undecided.
        Deferred = "deferred",
    }
}

words! {
    /// Result of a success criterion.
    CriterionStatus {
        /// Evidence supports it.
        Pass = "Pass",
        /// Evidence contradicts it.
        Fail = "Fail",
        /// The criterion is deferred.
        Defer = "Defer",
        /// The criterion is undecided.
        Pending = "Pending",
    }
}

words! {
    /// Verdict on research: ready for planning or not.
    ResearchVerdict {
        /// The outputs agree.
        Clean = "clean",
        /// The outputs differ in places. The planner must know them.
        IssuesFlagged = "issues_flagged",
        /// The outputs differ too much: repeat the research with a sharper question.
        NeedsReSpawn = "needs_re_spawn",
    }
}

words! {
    /// Progress of a handoff.
    HandoffStatus {
        /// Unread.
        Open = "open",
        /// Read.
        Read = "read",
        /// The requested work was done.
        Acted = "acted",
        /// The handoff is closed.
        Archived = "archived",
    }
}

words! {
    /// Outcome of an audit.
    ValidationStatus {
        /// Every requirement is observed by a test.
        Clean = "clean",
        /// Some requirements are not observed by a test.
        IssuesFound = "issues_found",
        /// There was nothing to audit.
        Skipped = "skipped",
    }
}

/// The frontmatter of `M001-VERIFICATION.md`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verification {
    /// The version of the format.
    pub schema_version: u32,
    /// The milestone.
    pub milestone: MilestoneId,
    /// Name of the milestone.
    pub milestone_name: Option<String>,
    /// The day of the verification.
    pub verified: Option<String>,
    /// Status that follows from the criteria.
    pub milestone_status: MilestoneStatus,
    /// Number of criteria: the sum of the next four.
    pub sc_total: u64,
    /// Number of passed criteria.
    pub passed: u64,
    /// Number of failed criteria.
    pub failed: u64,
    /// Number of deferred criteria.
    pub deferred: u64,
    /// Number of undecided criteria.
    pub pending: u64,
}

/// The frontmatter of `M001-VALIDATION.md`.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// Number of the milestone.
    pub phase: u32,
    /// Short name of the milestone.
    pub slug: Option<String>,
    /// Time of the audit.
    pub audited_at: String,
    /// Number of requirements: the sum of the next three.
    pub requirements_total: u64,
    /// Number of requirements that a test observes.
    pub covered: u64,
    /// Number of requirements that tests touch without observing them.
    pub under_sampled: u64,
    /// Number of requirements that no test touches.
    pub uncovered: u64,
    /// True if every requirement is covered.
    pub nyquist_compliant: bool,
    /// The outcome.
    pub status: ValidationStatus,
    /// True if the tests that other tests need exist.
    pub wave_0_complete: Option<bool>,
    /// Time of its creation.
    pub created: Option<String>,
}

/// The frontmatter of `M001-RESEARCH.md`: the reconciled outputs of several researchers.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Research {
    /// The version of the format.
    pub schema_version: u32,
    /// The milestone.
    pub milestone: MilestoneId,
    /// The word `research`.
    #[serde(rename = "type")]
    pub document: String,
    /// Author of the file.
    pub agent: String,
    /// Number of reconciled outputs.
    pub k: u64,
    /// Agreement of the outputs, from 0 to 1: computed, never judged.
    #[schemars(range(min = 0, max = 1))]
    pub agreement_score: f64,
    /// Number of decisions without a majority: computed, never judged.
    pub contested_count: u64,
    /// Verdict that follows from the two numbers above.
    pub reconciler_verdict: ResearchVerdict,
    /// Number of entries `D-N`: the final decisions.
    pub decision_count: u64,
    /// Number of entries `R-N`: risks.
    pub risk_count: u64,
    /// Number of entries `P-N`: patterns.
    pub pattern_count: u64,
    /// Number of entries `Q-N`: open questions.
    pub open_question_count: u64,
    /// Number of entries `S-N`: sources.
    pub source_count: u64,
}

/// The frontmatter of `research/spawn-0.md`: the output of one researcher.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResearcherOutput {
    /// The version of the format.
    pub schema_version: u32,
    /// Author of the file.
    pub agent: String,
    /// Number of the researcher, from 0.
    pub spawn_index: u64,
    /// Value that distinguishes this run from the runs of other researchers.
    pub seed_delta: i64,
    /// Hash of the question.
    pub task_query_hash: String,
    /// The question.
    pub task_query: Option<String>,
    /// Number of entries `D-N`: decisions.
    pub decision_count: u64,
    /// Number of entries `R-N`: risks.
    pub risk_count: u64,
    /// Number of entries `P-N`: patterns.
    pub pattern_count: u64,
    /// Number of entries `Q-N`: open questions.
    pub open_question_count: u64,
    /// Number of entries `S-N`: sources.
    pub source_count: u64,
}

/// The frontmatter of `S001-PLAN.md`. It may have further keys.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct SlicePlan {
    /// The slice.
    pub slice: SliceId,
    /// The milestone.
    pub milestone: MilestoneId,
    /// The word `plan`.
    #[serde(rename = "type")]
    pub document: String,
    /// Progress of the slice.
    pub status: WorkStatus,
    /// Requirements that the slice fulfils.
    pub requirements: Vec<String>,
}

/// The frontmatter of `T0001-PLAN.md`. It may have further keys.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct TaskPlan {
    /// The task.
    pub id: SliceTaskId,
    /// Slice of the task.
    pub slice: SliceId,
    /// Milestone of the task.
    pub milestone: MilestoneId,
    /// The word `execute`.
    #[serde(rename = "type")]
    pub document: String,
    /// Progress of the task. This is the authoritative value; TODO only repeats it.
    pub status: WorkStatus,
    /// Model of the task: haiku, sonnet, opus, or a portable one.
    pub tier: String,
    /// Agent or person that does the task.
    pub owner: Option<String>,
    /// Number of the slice.
    pub wave: u32,
    /// Tasks of earlier slices that must be done first.
    pub depends_on: Vec<SliceTaskId>,
    /// Files that the task changes.
    pub files_modified: Vec<String>,
}

/// The frontmatter of `T0001-SUMMARY.md`. It may have further keys.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct TaskSummary {
    /// The task.
    pub id: SliceTaskId,
    /// Slice of the task.
    pub slice: SliceId,
    /// Milestone of the task.
    pub milestone: MilestoneId,
    /// The word `summary`.
    #[serde(rename = "type")]
    pub document: String,
    /// Progress of the task. `pending` until the summary is filled in.
    pub status: WorkStatus,
}

/// The frontmatter of `TODO.md`: counts of the tasks.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// The version of the format.
    pub schema_version: u32,
    /// The milestone.
    pub milestone_id: MilestoneId,
    /// The slice.
    pub slice_id: SliceId,
    /// Number of all tasks.
    pub total: u64,
    /// Number of pending tasks.
    pub pending: u64,
    /// Number of tasks in progress.
    pub in_progress: u64,
    /// Number of finished tasks.
    pub done: u64,
    /// Number of skipped tasks.
    pub skipped: u64,
    /// Number of parked tasks.
    pub parked: u64,
    /// Time of writing, in files of another program.
    pub updated_at: Option<String>,
}

/// The frontmatter of a handoff.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentHandoff {
    /// The version of the format.
    pub schema_version: u32,
    /// Id: 8 hexadecimal digits.
    #[schemars(regex(pattern = r"^[0-9a-f]{8}$"))]
    pub id: String,
    /// Agent that wrote the handoff.
    pub from_agent: String,
    /// Agent that receives the handoff; `*` means all agents.
    pub to_agent: String,
    /// Topic of the handoff.
    pub topic: String,
    /// Time of writing, to the millisecond; unique within a project.
    pub created_at: String,
    /// Milestone of the handoff. Without one, the handoff is global.
    pub milestone: Option<MilestoneId>,
    /// Slice that the handoff is about.
    pub slice: Option<SliceId>,
    /// Task that the handoff is about.
    pub task: Option<SliceTaskId>,
    /// Progress of the handoff.
    pub status: HandoffStatus,
}

/// Content of `M001-META.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// The milestone.
    pub id: MilestoneId,
    /// Name of the milestone.
    pub name: String,
    /// Status of the milestone: `pending`, `in-progress`, or its result.
    pub status: String,
    /// Day of the creation.
    pub created: String,
    /// Purpose of the milestone.
    pub goal: String,
    /// Requirements that the milestone covers.
    pub requirements: Vec<String>,
    /// Criteria for the end of the milestone, in order: `SC-1`, `SC-2` and so on.
    pub success_criteria: Vec<SuccessCriterion>,
    /// Number of slices.
    pub slice_count: u64,
    /// Number of tasks in all slices.
    pub task_count: u64,
}

/// A success criterion, with or without an id.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SuccessCriterion {
    /// Only the text.
    Text(String),
    /// Text with an id.
    Named {
        /// Id, such as `SC-1`.
        id: String,
        /// Text of the criterion.
        text: String,
    },
}

impl SuccessCriterion {
    /// Returns the text of the criterion.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Named { text, .. } => text,
        }
    }
}
