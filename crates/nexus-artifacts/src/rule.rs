//! The rules of the lint, each with a name that stays.

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

            /// The name.
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
    Unreadable = "unreadable", "A file can be read: it is a regular file, of at most 4 MiB, with rights that allow it.";
    Encoding = "encoding", "A file is UTF-8.";
    ObjectObject = "object-object", "Nothing says `[object Object]`, which is what a program writes that lost a value.";
    FrontmatterMissing = "frontmatter-missing", "A kind that has a frontmatter begins with one, and it has an end.";
    FrontmatterInvalid = "frontmatter-invalid", "A frontmatter, and META, has the keys and values of its schema.";
    FenceUnclosed = "fence-unclosed", "A code fence has an end, as everything after it is code otherwise.";
    CommentUnclosed = "comment-unclosed", "A comment has an end.";
    SectionMissing = "section-missing", "The sections of the kind are there.";
    SectionEmpty = "section-empty", "A section says something; `_None._` if there is nothing to say.";
    SectionDuplicate = "section-duplicate", "A section of the kind is there once.";
    SectionUnclosed = "section-unclosed", "A section that begins with a tag ends with it.";
    EntryHeading = "entry-heading", "An entry's heading is `### D-1: text`, below its section.";
    EntrySequence = "entry-sequence", "Entries are numbered from 1 without a gap.";
    EntryField = "entry-field", "An entry has the lines `- **Name:** value` of its kind.";
    EntryCount = "entry-count", "The frontmatter counts as many entries as there are.";
    CriterionTotal = "sc-total", "sc_total = passed + failed + deferred + pending.";
    CriterionStatus = "sc-status", "A criterion's status is Pass, Fail, Defer or Pending.";
    CriterionCount = "sc-count", "The frontmatter counts as many criteria of each status as there are.";
    MilestoneStatus = "milestone-status", "The milestone's status follows from its criteria, and the line `**Milestone Status:**` says it too.";
    RequirementTotal = "requirements-total", "requirements_total = covered + under_sampled + uncovered.";
    Nyquist = "nyquist", "nyquist_compliant says whether every requirement is covered; `clean` only if it is.";
    ReasoningAgreement = "reasoning-agreement", "The agreement of reasoning is identical, overlapping, orthogonal or unknown.";
    ResearchVerdict = "research-verdict", "The verdict follows from agreement_score, contested_count and what is unresolved.";
    ResearchScore = "research-score", "agreement_score and contested_count are what the researchers' outputs come to.";
    TaskBlock = "task-block", "A `<task>` block is whole, and stands in a plan that has one or says `_None._`.";
    TaskAttribute = "task-attribute", "A `<task>` block has `id`, `depends_on`, `wave` and `tier`.";
    TaskId = "task-id", "A task is called after its slice, and tasks are numbered from T0001 without a gap.";
    TaskDependency = "task-dependency", "A task depends on tasks of earlier slices only, and they are there.";
    TaskWave = "task-wave", "A task's wave is its slice's number.";
    TaskTier = "task-tier", "A task's tier is haiku, sonnet, opus, or a portable model of the configuration.";
    PlaceMismatch = "place-mismatch", "A file says the milestone, slice and task that it lies with.";
    HandoffName = "handoff-name", "A handoff's file is called after its time, its agents, its topic and its id.";
    ReviewChain = "review-chain", "Appended reviews are unchanged: each seal has the length and the SHA-256 of all bytes before it.";
    ReviewTail = "review-tail", "A review ends with a seal; what comes after it was cut off, or appended by hand.";
    MetaCount = "meta-count", "META counts the slices and tasks that there are.";
    TodoStale = "todo-stale", "TODO is what the tasks say.";
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
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in characters.
    pub column: usize,
    /// The rule that is broken.
    pub rule: Rule,
    /// How, and what to do.
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
