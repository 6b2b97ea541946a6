//! What the frontmatters say, by kind. A format that is closed refuses keys that it does not know; plans and summaries are open, as agents
//! keep keys of their own there.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{MilestoneId, SliceId, SliceTaskId};

/// What is to be known of a type: it can be read, and has a JSON Schema.
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
    /// How far a task or a slice is.
    WorkStatus {
        /// Not begun.
        Pending = "pending",
        /// Somebody works on it.
        InProgress = "in-progress",
        /// Done.
        Done = "done",
        /// It is not going to be done.
        Skipped = "skipped",
        /// Set aside until somebody takes it up again.
        Parked = "parked",
    }
}

words! {
    /// What became of a milestone.
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
    /// What became of a success criterion.
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
    /// Whether research can be planned on.
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
    /// Whether a handoff was taken up.
    HandoffStatus {
        /// Nobody read it.
        Open = "open",
        /// Read.
        Read = "read",
        /// What it asks for was done.
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
    /// What follows from the criteria.
    pub milestone_status: MilestoneStatus,
    /// How many criteria there are: the sum of the next four.
    pub sc_total: u64,
    /// Those that passed.
    pub passed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that are put off.
    pub deferred: u64,
    /// Those that are not decided.
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
    /// When it was audited.
    pub audited_at: String,
    /// How many requirements there are: the sum of the next three.
    pub requirements_total: u64,
    /// Those that a test observes.
    pub covered: u64,
    /// Those that tests touch without observing them.
    pub under_sampled: u64,
    /// Those that no test touches.
    pub uncovered: u64,
    /// Whether every requirement is covered.
    pub nyquist_compliant: bool,
    /// The outcome.
    pub status: ValidationStatus,
    /// Whether the tests that others need are there.
    pub wave_0_complete: Option<bool>,
    /// When it was begun.
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
    /// Who wrote it.
    pub agent: String,
    /// How many outputs were reconciled.
    pub k: u64,
    /// How far they agree, from 0 to 1: computed, never judged.
    #[schemars(range(min = 0, max = 1))]
    pub agreement_score: f64,
    /// How many decisions have no majority: computed, never judged.
    pub contested_count: u64,
    /// What follows from both.
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
    /// Who wrote it.
    pub agent: String,
    /// Which of the researchers, from 0.
    pub spawn_index: u64,
    /// What told it apart from the others.
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
    /// How far it is.
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
    /// How far it is: the truth, of which TODO is a view.
    pub status: WorkStatus,
    /// The model: haiku, sonnet, opus, or a portable one.
    pub tier: String,
    /// Who does it.
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
    /// `pending` until somebody filled it in.
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
    /// Those that are pending.
    pub pending: u64,
    /// Those in progress.
    pub in_progress: u64,
    /// Those that are done.
    pub done: u64,
    /// Those that were skipped.
    pub skipped: u64,
    /// Those that are parked.
    pub parked: u64,
    /// When it was written, where another program wrote it.
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
    /// Who wrote it.
    pub from_agent: String,
    /// Who it is for; `*` is everybody.
    pub to_agent: String,
    /// What it is about.
    pub topic: String,
    /// When it was written, to the millisecond; no two of a project have the same.
    pub created_at: String,
    /// The milestone that it belongs to; none is global.
    pub milestone: Option<MilestoneId>,
    /// The slice that it is about.
    pub slice: Option<SliceId>,
    /// The task that it is about.
    pub task: Option<SliceTaskId>,
    /// Whether it was taken up.
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
    /// What it is for.
    pub goal: String,
    /// The requirements that it covers.
    pub requirements: Vec<String>,
    /// What must hold at its end, in order: `SC-1`, `SC-2` and so on.
    pub success_criteria: Vec<SuccessCriterion>,
    /// How many slices it has.
    pub slice_count: u64,
    /// How many tasks they have.
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
