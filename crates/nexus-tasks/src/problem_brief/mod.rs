//! The brief: the bounds of a task. It defines the scope of the work and its success criteria; the way there is only a plan.

mod amendment;
mod check;
mod draft;
mod plan;

use std::path::Path;

use nexus_core::{Brief, ParticipantScope, PathRule, ScopeError, ToolPattern};
use nexus_work::{AgentTypes, DraftError};
use serde::{Serialize, Serializer};

pub use self::{
    amendment::Amendment,
    draft::{BriefDraft, BriefLimits, Criterion, PlanEntryDraft},
    plan::{Plan, PlanEntry, PlanStep},
};

/// Id under which a review judges the outcomes of a step's entries. No criterion of a brief has this id.
pub(crate) const OUTCOME: &str = "outcome";

/// Checked bounds of a task.
///
/// These rules hold for every value, and also after an [`Amendment`] was merged into it:
///
/// - There is at least one success criterion; ids are unique, and none is `outcome`.
/// - Every writable path is readable, and is not excluded by `do_not_touch`.
/// - The plan has at least one entry that is not a review, and at most [`BriefLimits::ENTRIES`].
/// - Entries of one parallel group follow one another, and each has a slice. Slices lie within the writable paths and do not overlap.
///   A group contains no review.
/// - After every execution entry, or band, there is a review, whose tier and phase are set here.
///
/// It serializes as the [`BriefDraft`] that it was made from. To read it, pass that draft to [`ProblemBrief::accept`] again.
///
/// ```
/// use nexus_tasks::{BriefDraft, ProblemBrief};
/// use nexus_work::AgentTypes;
///
/// let draft: BriefDraft = serde_json::from_str(r#"{
///     "problem": "Negative amounts are rounded to zero.",
///     "criteria": [{ "id": "negatives", "text": "sum(-1, -2) is -3" }],
///     "read": ["."],
///     "write": ["src"],
///     "plan": [{
///         "tier": "execution", "phase": "implement", "agent_type": "executor",
///         "outcome": "sum keeps the sign", "criteria": ["negatives"]
///     }]
/// }"#)?;
/// # let tree = tempfile::tempdir()?;
/// # let tree = tree.path().canonicalize()?;
/// # std::fs::create_dir(tree.join("src"))?;
/// let brief = ProblemBrief::accept(draft, &AgentTypes::built_in(), &tree)?;
/// assert_eq!(brief.plan().entries().len(), 2); // the review was appended
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemBrief {
    /// The accepted draft, with the checked plan in it.
    draft: BriefDraft,
    plan: Plan,
}

impl ProblemBrief {
    /// Checks a draft on the tree in which the task begins. `root` is the absolute path of that tree's folder.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with every fault.
    pub fn accept(draft: BriefDraft, types: &AgentTypes, root: &Path) -> Result<Self, DraftError> {
        let plan = check::check(&draft, types, root)?;
        // Store the plan with its added reviews, so that entry numbers are the same when the draft is read again.
        let plan_drafts = plan.entries().iter().map(PlanEntry::to_draft).collect();
        Ok(Self { draft: BriefDraft { plan: plan_drafts, ..draft }, plan })
    }

    /// Returns the brief with the additions of an amendment, checked again on the tree at `root`.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with every fault of the amendment, or of the resulting brief.
    pub fn amended(
        &self,
        amendment: &Amendment,
        types: &AgentTypes,
        root: &Path,
    ) -> Result<Self, DraftError> {
        Self::accept(amendment.merged(&self.draft)?, types, root)
    }

    /// Returns the problem to solve, and the clarifications of amendments, oldest first.
    pub fn problem(&self) -> (&str, &[String]) {
        (&self.draft.problem, &self.draft.clarifications)
    }

    /// Returns the success criteria.
    pub fn criteria(&self) -> &[Criterion] {
        &self.draft.criteria
    }

    /// Returns the topics that are not part of it.
    pub fn out_of_scope(&self) -> &[String] {
        &self.draft.out_of_scope
    }

    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the scope of an agent in the tree at `root`, with `tools`. A unit of a band may write only the slice of its entry. A
    /// reading agent gets no tool that writes, so its scope need not forbid it.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if the tree has changed so that the brief would be rejected: a path has become a link, or two slices overlap.
    pub fn scope(
        &self,
        root: &Path,
        tools: impl IntoIterator<Item = ToolPattern>,
        entry: Option<&PlanEntry>,
    ) -> Result<ParticipantScope, ScopeError> {
        let brief = tools.into_iter().fold(check::engine_brief(&self.draft, root), Brief::tool);
        let scope = ParticipantScope::assemble(&brief, None, None)?;
        // Check again on this tree: a path may have become a link since the brief was accepted.
        for slices in check::bands(&self.draft.plan) {
            scope.check_slices(&slices)?;
        }
        match entry.and_then(PlanEntry::write_slice) {
            Some(slice) => scope.with_write_slice(slice),
            None => Ok(scope),
        }
    }

    /// Returns the readable paths, relative to the root.
    pub fn readable(&self) -> &[String] {
        &self.draft.read
    }

    /// Returns the writable paths, relative to the root.
    pub fn writable(&self) -> &[String] {
        &self.draft.write
    }

    /// Returns the paths and globs that must not be touched.
    pub fn do_not_touch(&self) -> &[PathRule] {
        &self.draft.do_not_touch
    }

    /// Returns the ids that a verdict on `step` judges: `outcome`, and the criteria that its entries name. If the task can be complete
    /// after the step, every criterion.
    pub fn criteria_of(&self, step: &PlanStep<'_>, is_last: bool) -> Vec<String> {
        let mut ids = vec![OUTCOME.to_owned()];
        let is_named = |id: &String| step.work().iter().any(|entry| entry.criteria().contains(id));
        let due = self.draft.criteria.iter().map(|criterion| &criterion.id);
        ids.extend(due.filter(|id| is_last || is_named(id)).cloned());
        ids
    }
}

impl Serialize for ProblemBrief {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.draft.serialize(serializer)
    }
}
