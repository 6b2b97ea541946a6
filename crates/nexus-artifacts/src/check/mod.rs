//! Lint rules for a single artifact.

mod counts;
mod files;
mod structure;
mod tasks;

use super::{
    document::Artifact,
    id::{MilestoneId, SliceId, SliceTaskId},
    kind::{Kind, Place},
    rule::Rule,
};

pub(super) use tasks::{PlannedTask, planned};

/// A fault: the byte offset, the broken rule and the message.
pub(super) type Fault = (usize, Rule, String);

/// Context of a check, and the faults that it found.
pub(super) struct CheckContext<'a> {
    pub(super) artifact: &'a Artifact,
    /// Location of the file, as far as it is known.
    pub(super) milestone: Option<MilestoneId>,
    pub(super) slice: Option<SliceId>,
    pub(super) task: Option<SliceTaskId>,
    /// Portable models of the configuration.
    pub(super) models: &'a [String],
    pub(super) faults: Vec<Fault>,
}

impl<'a> CheckContext<'a> {
    pub(super) fn new(artifact: &'a Artifact, place: Option<&Place>, models: &'a [String]) -> Self {
        Self {
            artifact,
            milestone: place.and_then(|place| place.milestone),
            slice: place.and_then(|place| place.slice),
            task: place.and_then(|place| place.task),
            models,
            faults: Vec::new(),
        }
    }

    pub(super) fn fault(&mut self, at: usize, rule: Rule, message: impl Into<String>) {
        self.faults.push((at, rule, message.into()));
    }
}

/// Returns all faults of one artifact. `name` is its file name.
pub(super) fn faults(
    document: &Artifact,
    place: Option<&Place>,
    name: &str,
    models: &[String],
) -> Vec<Fault> {
    let mut check = CheckContext::new(document, place, models);
    check.structure();
    // Check the meaning of values only if they fit their schema.
    if !check
        .faults
        .iter()
        .any(|(_, rule, _)| matches!(rule, Rule::FrontmatterMissing | Rule::FrontmatterInvalid))
    {
        check.places();
        match document.kind() {
            Kind::Verification => check.verification(),
            Kind::Validation => check.validation(),
            Kind::Research => check.research(),
            Kind::ResearcherOutput => check.entry_counts(),
            Kind::SlicePlan => drop(planned(&mut check)),
            Kind::TaskPlan => check.task_plan(),
            Kind::PlanReview => check.review(),
            Kind::Handoff => check.handoff(name),
            _ => {}
        }
    }
    check.faults
}
