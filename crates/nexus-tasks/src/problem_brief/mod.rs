//! The brief: what bounds a task. It says where the work may go and when it is done, and no more of the way there than a plan.

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

/// The id under which a review judges what a step's entries say is to be true after it. No criterion of a brief has it.
pub(crate) const OUTCOME: &str = "outcome";

/// Bounds of a task, checked.
///
/// What holds of every value, and of one that an [`Amendment`] was merged into:
///
/// - There is at least one success criterion; ids are unique, and none is `outcome`.
/// - What may be written may be read, and is not what must not be touched.
/// - The plan has at least one entry that is not a review, and at most [`BriefLimits::ENTRIES`].
/// - Entries of one parallel group follow one another; each has a slice; slices are inside of what may be written and have
///   nothing in common; no review is among them.
/// - After every execution entry, or band, there is a review, whose tier and phase are set here.
///
/// It serializes as the [`BriefDraft`] that makes it, and is read by making it anew: [`ProblemBrief::accept`].
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
    /// As it was accepted: the plan in it is the checked one.
    draft: BriefDraft,
    plan: Plan,
}

impl ProblemBrief {
    /// Checks a draft on the tree in which the task begins. An absolute path, `root` is the folder of that tree.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with everything that is wrong.
    pub fn accept(draft: BriefDraft, types: &AgentTypes, root: &Path) -> Result<Self, DraftError> {
        let plan = check::check(&draft, types, root)?;
        let plan_drafts = plan.entries().iter().map(PlanEntry::to_draft).collect();
        Ok(Self { draft: BriefDraft { plan: plan_drafts, ..draft }, plan })
    }

    /// The brief with what an amendment adds, checked anew on the tree at `root`.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with everything that is wrong with the amendment, or with the brief that would come of it.
    pub fn amended(
        &self,
        amendment: &Amendment,
        types: &AgentTypes,
        root: &Path,
    ) -> Result<Self, DraftError> {
        Self::accept(amendment.merged(&self.draft)?, types, root)
    }

    /// What is to be solved, with what amendments made clear, in the order in which they came.
    pub fn problem(&self) -> (&str, &[String]) {
        (&self.draft.problem, &self.draft.clarifications)
    }

    /// When it is solved.
    pub fn criteria(&self) -> &[Criterion] {
        &self.draft.criteria
    }

    /// What is not part of it.
    pub fn out_of_scope(&self) -> &[String] {
        &self.draft.out_of_scope
    }

    /// The way there.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What an agent may touch in the tree at `root`, with `tools`. A unit of a band, whose entry has a slice, may write
    /// that; who is not to write at all is given no tool that does.
    ///
    /// # Errors
    ///
    /// [`ScopeError`] if the tree is no longer one on which the brief would be accepted: a path is a link by now, or two
    /// slices have come to overlap.
    pub fn scope(
        &self,
        root: &Path,
        tools: impl IntoIterator<Item = ToolPattern>,
        entry: Option<&PlanEntry>,
    ) -> Result<ParticipantScope, ScopeError> {
        let brief = tools.into_iter().fold(check::engine_brief(&self.draft, root), Brief::tool);
        let scope = ParticipantScope::assemble(&brief, None, None)?;
        for slices in check::bands(&self.draft.plan) {
            scope.check_slices(&slices)?;
        }
        match entry.and_then(PlanEntry::write_slice) {
            Some(slice) => scope.with_write_slice(slice),
            None => Ok(scope),
        }
    }

    /// What may be read, as paths relative to the root.
    pub fn readable(&self) -> &[String] {
        &self.draft.read
    }

    /// What may be written, as paths relative to the root.
    pub fn writable(&self) -> &[String] {
        &self.draft.write
    }

    /// What must not be touched.
    pub fn do_not_touch(&self) -> &[PathRule] {
        &self.draft.do_not_touch
    }

    /// The ids that a verdict on `step` judges: `outcome`, what its entries name, and, where the task is to be complete
    /// after it, every criterion.
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
