//! A checked plan, and the steps that its entries form.

use super::PlanEntryDraft;

/// One entry of a checked plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanEntry {
    pub(super) draft: PlanEntryDraft,
    pub(super) is_review: bool,
    pub(super) is_execution: bool,
}

impl PlanEntry {
    /// The tier of the agent.
    pub fn tier(&self) -> &str {
        &self.draft.tier
    }

    /// The phase of the work.
    pub fn phase(&self) -> &str {
        &self.draft.phase
    }

    /// The type of the agent.
    pub fn agent_type(&self) -> &str {
        &self.draft.agent_type
    }

    /// Statement that is true after it.
    pub fn outcome(&self) -> &str {
        &self.draft.outcome
    }

    /// Criteria that have to hold after it.
    pub fn criteria(&self) -> &[String] {
        &self.draft.criteria
    }

    /// Part of the write paths that belongs to this entry alone.
    pub fn write_slice(&self) -> Option<&[String]> {
        self.draft.write_slice.as_deref()
    }

    /// Band of which it is a unit.
    pub fn parallel_group(&self) -> Option<&str> {
        self.draft.parallel_group.as_deref()
    }

    /// Returns true if the entry reviews the entries before it.
    pub fn is_review(&self) -> bool {
        self.is_review
    }

    /// Returns true if the entry's agent changes files: its tier is `execution` or is based on `execution`.
    pub fn is_execution(&self) -> bool {
        self.is_execution
    }

    pub(super) fn to_draft(&self) -> PlanEntryDraft {
        self.draft.clone()
    }

    /// Returns true if this entry and `next` are units of one band. Call it for two consecutive entries.
    fn goes_with(&self, next: &Self) -> bool {
        self.draft.parallel_group.is_some() && self.draft.parallel_group == next.draft.parallel_group
    }
}

/// A checked plan: entries in order, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) entries: Vec<PlanEntry>,
}

/// Unit of settlement: work, and its review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanStep<'p> {
    first: usize,
    work: &'p [PlanEntry],
    review: Option<&'p PlanEntry>,
}

impl Plan {
    /// Every entry, reviews included.
    pub fn entries(&self) -> &[PlanEntry] {
        &self.entries
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = PlanStep<'_>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let step = self.step_from(from)?;
            from = step.end();
            Some(step)
        })
    }

    /// Returns the step of `entry`, counted from 0: its work, another unit of the same band, or the review of either.
    pub fn step_of(&self, entry: usize) -> Option<PlanStep<'_>> {
        self.steps().find(|step| (step.first()..step.end()).contains(&entry))
    }

    /// Returns the step after `step`.
    pub fn step_after(&self, step: &PlanStep<'_>) -> Option<PlanStep<'_>> {
        self.step_from(step.end())
    }

    /// Returns the last step whose work changes files. If no step changes files, returns the last step.
    pub fn last_execution(&self) -> Option<PlanStep<'_>> {
        let steps = || self.steps();
        steps().filter(|step| step.work.iter().any(PlanEntry::is_execution)).last().or_else(|| steps().last())
    }

    fn step_from(&self, first: usize) -> Option<PlanStep<'_>> {
        let rest = self.entries.get(first..).filter(|rest| !rest.is_empty())?;
        let units = 1 + rest.windows(2).take_while(|pair| pair[0].goes_with(&pair[1])).count();
        let (work, after) = rest.split_at(units);
        Some(PlanStep { first, work, review: after.first().filter(|entry| entry.is_review) })
    }
}

impl<'p> PlanStep<'p> {
    /// Returns the number of the step's first entry, counted from 0.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Returns the number of the first entry after the step and its review.
    pub fn end(&self) -> usize {
        self.first + self.work.len() + usize::from(self.review.is_some())
    }

    /// Returns the work of the step: one entry, or the units of a band.
    pub fn work(&self) -> &'p [PlanEntry] {
        self.work
    }

    /// Returns the review of the step. `None` if the work only reads and the plan has no review of it.
    pub fn review(&self) -> Option<&'p PlanEntry> {
        self.review
    }
}
