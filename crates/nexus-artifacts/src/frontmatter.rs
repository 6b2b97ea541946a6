//! Frontmatter of each kind. A closed format refuses unknown keys; plans and summaries are open, because agents
//! store keys of their own there.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{MilestoneId, SliceId, SliceTaskId};

/// Declares a type that can be read and has a JSON Schema.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$word_about:meta])* $word:ident = $text:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum $name {
            $($(#[$word_about])* #[serde(rename = $text)] $word,)*
        }

        impl $name {
            /// Every one.
            pub const ALL: &[Self] = &[$(Self::$word,)*];

            /// The word in the files.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }

            /// The one of this word.
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
        /// Not begun.
        Pending = "pending",
        /// An agent or a person works on it.
        InProgress = "in-progress",
        /// Done.
        Done = "done",
        /// It is not going to be done.
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
        /// None failed, but one is put off or not decided.
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
        /// It is put off.
        Defer = "Defer",
        /// Not decided.
        Pending = "Pending",
    }
}

words! {
    /// Decision on research: ready to be planned on or not.
    ResearchVerdict {
        /// The outputs agree.
        Clean = "clean",
        /// They differ in places; who plans must know.
        IssuesFlagged = "issues_flagged",
        /// They differ too much: ask again, with a sharper question.
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
        /// Out of the way.
        Archived = "archived",
    }
}

words! {
    /// The outcome of an audit.
    ValidationStatus {
        /// Every requirement is observed by a test.
        Clean = "clean",
        /// Some are not.
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
    /// Its name.
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
    /// The milestone's number.
    pub phase: u32,
    /// A short name of it.
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

/// The frontmatter of `M001-RESEARCH.md`: what the outputs of several researchers come to.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Research {
    /// The version of the format.
    pub schema_version: u32,
    /// The milestone.
    pub milestone: MilestoneId,
    /// `research`.
    #[serde(rename = "type")]
    pub document: String,
    /// Its author.
    pub agent: String,
    /// Number of reconciled outputs.
    pub k: u64,
    /// Agreement of the outputs, from 0 to 1: computed, never judged.
    #[schemars(range(min = 0, max = 1))]
    pub agreement_score: f64,
    /// Number of decisions without a majority: computed, never judged.
    pub contested_count: u64,
    /// Verdict that follows from both.
    pub reconciler_verdict: ResearchVerdict,
    /// Entries `D-N` of the final decisions.
    pub decision_count: u64,
    /// Entries `R-N`.
    pub risk_count: u64,
    /// Entries `P-N`.
    pub pattern_count: u64,
    /// Entries `Q-N`.
    pub open_question_count: u64,
    /// Entries `S-N`.
    pub source_count: u64,
}

/// The frontmatter of `research/spawn-0.md`: the output of one researcher.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResearcherOutput {
    /// The version of the format.
    pub schema_version: u32,
    /// Its author.
    pub agent: String,
    /// Number of the researcher, from 0.
    pub spawn_index: u64,
    /// Value that distinguishes its run from the others.
    pub seed_delta: i64,
    /// The hash of the question.
    pub task_query_hash: String,
    /// The question.
    pub task_query: Option<String>,
    /// Entries `D-N`.
    pub decision_count: u64,
    /// Entries `R-N`.
    pub risk_count: u64,
    /// Entries `P-N`.
    pub pattern_count: u64,
    /// Entries `Q-N`.
    pub open_question_count: u64,
    /// Entries `S-N`.
    pub source_count: u64,
}

/// The frontmatter of `S001-PLAN.md`. Other keys may be there too.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct SlicePlan {
    /// The slice.
    pub slice: SliceId,
    /// The milestone.
    pub milestone: MilestoneId,
    /// `plan`.
    #[serde(rename = "type")]
    pub document: String,
    /// Its progress.
    pub status: WorkStatus,
    /// The requirements that it is for.
    pub requirements: Vec<String>,
}

/// The frontmatter of `T0001-PLAN.md`. Other keys may be there too.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct TaskPlan {
    /// The task.
    pub id: SliceTaskId,
    /// Its slice.
    pub slice: SliceId,
    /// Its milestone.
    pub milestone: MilestoneId,
    /// `execute`.
    #[serde(rename = "type")]
    pub document: String,
    /// Its progress: the authoritative value, of which TODO is a view.
    pub status: WorkStatus,
    /// The model: haiku, sonnet, opus, or a portable one.
    pub tier: String,
    /// Agent or person that does it.
    pub owner: Option<String>,
    /// The slice's number.
    pub wave: u32,
    /// Tasks of earlier slices that must be done before.
    pub depends_on: Vec<SliceTaskId>,
    /// The files that it changes.
    pub files_modified: Vec<String>,
}

/// The frontmatter of `T0001-SUMMARY.md`. Other keys may be there too.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
pub struct TaskSummary {
    /// The task.
    pub id: SliceTaskId,
    /// Its slice.
    pub slice: SliceId,
    /// Its milestone.
    pub milestone: MilestoneId,
    /// `summary`.
    #[serde(rename = "type")]
    pub document: String,
    /// `pending` until it is filled in.
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
    /// All tasks.
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
    /// 8 hexadecimal digits.
    #[schemars(regex(pattern = r"^[0-9a-f]{8}$"))]
    pub id: String,
    /// Its author.
    pub from_agent: String,
    /// Its recipient; `*` means all agents.
    pub to_agent: String,
    /// Its topic.
    pub topic: String,
    /// Time of writing, to the millisecond; unique within a project.
    pub created_at: String,
    /// The milestone that it belongs to; none is global.
    pub milestone: Option<MilestoneId>,
    /// The slice that it is about.
    pub slice: Option<SliceId>,
    /// The task that it is about.
    pub task: Option<SliceTaskId>,
    /// Its progress.
    pub status: HandoffStatus,
}

/// `M001-META.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Meta {
    /// The milestone.
    pub id: MilestoneId,
    /// Its name.
    pub name: String,
    /// `pending`, `in-progress`, or what became of it.
    pub status: String,
    /// The day it was made.
    pub created: String,
    /// Its purpose.
    pub goal: String,
    /// The requirements that it covers.
    pub requirements: Vec<String>,
    /// Criteria for its end, in order: `SC-1`, `SC-2` and so on.
    pub success_criteria: Vec<SuccessCriterion>,
    /// Number of its slices.
    pub slice_count: u64,
    /// Number of tasks in its slices.
    pub task_count: u64,
}

/// A success criterion, with or without its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SuccessCriterion {
    /// The text alone.
    Text(String),
    /// With its name.
    Named {
        /// `SC-1`.
        id: String,
        /// The text.
        text: String,
    },
}

impl SuccessCriterion {
    /// The text.
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::Named { text, .. } => text,
        }
    }
}
