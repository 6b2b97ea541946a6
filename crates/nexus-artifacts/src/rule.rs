//! The rules of the lint, each with a permanent id.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};

use super::document::TextPosition;

macro_rules! rules {
    ($($rule:ident = $id:literal, $about:literal;)*) => {
        /// A rule of the lint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
        pub enum Rule {
            $(#[doc = $about] #[schemars(rename = $id)] $rule,)*
        }

        impl Rule {
            /// Every rule.
            pub const ALL: &[Self] = &[$(Self::$rule,)*];

            /// Returns the id.
            pub fn id(self) -> &'static str {
                match self {
                    $(Self::$rule => $id,)*
                }
            }

            /// Returns the rule in one sentence.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$rule => $about,)*
                }
            }
        }
    };
}

rules! {
    Unreadable = "unreadable", "A file can be read: it is a regular file, of at most 4 MiB, with read \
        permission.";
    Encoding = "encoding", "A file is UTF-8.";
    ObjectObject = "object-object", "No text contains `[object Object]`, which a program writes when it has \
        lost a value.";
    FrontmatterMissing = "frontmatter-missing", "A file with a frontmatter begins with it, and the \
        frontmatter has an end.";
    FrontmatterInvalid = "frontmatter-invalid", "A frontmatter, and META, has the keys and values of its schema.";
    FenceUnclosed = "fence-unclosed", "A code fence has an end, as everything after it is code otherwise.";
    CommentUnclosed = "comment-unclosed", "A comment has an end.";
    SectionMissing = "section-missing", "The file has the sections of its kind.";
    SectionEmpty = "section-empty", "A section has content; write `_None._` if it has none.";
    SectionDuplicate = "section-duplicate", "Each section of the kind occurs once.";
    SectionUnclosed = "section-unclosed", "A section that begins with a tag ends with it.";
    EntryHeading = "entry-heading", "An entry's heading is `### D-1: text`, below its section.";
    EntrySequence = "entry-sequence", "Entries are numbered from 1 without a gap.";
    EntryField = "entry-field", "An entry has the lines `- **Name:** value` of its kind.";
    EntryCount = "entry-count", "The frontmatter counts as many entries as there are.";
    CriterionTotal = "sc-total", "sc_total = passed + failed + deferred + pending.";
    CriterionStatus = "sc-status", "A criterion's status is Pass, Fail, Defer or Pending.";
    CriterionCount = "sc-count", "The frontmatter counts as many criteria of each status as there are.";
    MilestoneStatus = "milestone-status", "The milestone's status follows from its criteria, and the line \
        `**Milestone Status:**` repeats it.";
    RequirementTotal = "requirements-total", "requirements_total = covered + under_sampled + uncovered.";
    Nyquist = "nyquist", "nyquist_compliant is true if every requirement is covered; `clean` requires that.";
    ReasoningAgreement = "reasoning-agreement", "The agreement of reasoning is identical, overlapping, orthogonal or unknown.";
    ResearchVerdict = "research-verdict", "The verdict follows from agreement_score, contested_count and what is unresolved.";
    ResearchScore = "research-score", "agreement_score and contested_count follow from the researchers' \
        outputs.";
    TaskBlock = "task-block", "A `<task>` block is complete, and each plan has one or contains `_None._`.";
    TaskAttribute = "task-attribute", "A `<task>` block has `id`, `depends_on`, `wave` and `tier`.";
    TaskId = "task-id", "A task is named after its slice, and tasks are numbered from T0001 without a gap.";
    TaskDependency = "task-dependency", "A task depends only on existing tasks of earlier slices.";
    TaskWave = "task-wave", "A task's wave is its slice's number.";
    TaskTier = "task-tier", "A task's tier is haiku, sonnet, opus, or a portable model of the configuration.";
    PlaceMismatch = "place-mismatch", "A file names the milestone, slice and task of its folder.";
    HandoffName = "handoff-name", "A handoff's file is named after its time, its agents, its topic and its \
        id.";
    ReviewChain = "review-chain", "Appended reviews are unchanged: each seal has the length and the SHA-256 of all bytes before it.";
    ReviewTail = "review-tail", "A review ends with a seal; later text was cut off or appended by hand.";
    MetaCount = "meta-count", "META counts the existing slices and tasks.";
    TodoStale = "todo-stale", "TODO has the present state of the tasks.";
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

impl Serialize for Rule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.id())
    }
}

/// A fault that the lint found. As text: `file:line:column: rule: message`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct LintFinding {
    /// Path of the file.
    pub path: PathBuf,
    /// Line, counted from 1.
    pub line: usize,
    /// Column, counted from 1, in characters.
    pub column: usize,
    /// The rule that is broken.
    pub rule: Rule,
    /// Description of the fault, with advice.
    pub message: String,
}

impl LintFinding {
    pub(super) fn at(path: &Path, position: TextPosition, rule: Rule, message: String) -> Self {
        let TextPosition { line, column } = position;
        Self { path: path.to_owned(), line, column, rule, message }
    }
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, column, rule, message } = self;
        write!(f, "{}:{line}:{column}: {rule}: {message}", path.display())
    }
}
