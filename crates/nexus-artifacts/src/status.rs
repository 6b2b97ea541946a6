//! Result of a milestone, from its criteria.

use serde::Serialize;

use super::{
    document::Artifact,
    frontmatter::{CriterionStatus, MilestoneStatus},
};

/// A success criterion as a verification has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CriterionResult {
    /// `SC-1`.
    pub id: String,
    /// Text of the criterion.
    pub text: String,
    /// Its result. An undecided criterion, or one with an unknown word, is pending.
    pub status: CriterionStatus,
}

/// The criteria of a verification, in order.
pub fn criteria(verification: &Artifact) -> Vec<CriterionResult> {
    let entries = verification.entries_of("Success Criteria");
    let criteria = entries.map(|entry| {
        let status = verification.field(entry, "Status").and_then(|field| CriterionStatus::of(&field.value));
        CriterionResult {
            id: entry.id.clone().unwrap_or_default(),
            text: entry.text.clone(),
            status: status.unwrap_or(CriterionStatus::Pending),
        }
    });
    criteria.collect()
}

/// Returns the status that follows: failed if a criterion failed; else deferred if a criterion is deferred or
/// undecided, or if the milestone has no criteria; else verified.
pub fn follows(criteria: &[CriterionResult]) -> MilestoneStatus {
    let is_any = |status| criteria.iter().any(|criterion| criterion.status == status);
    if is_any(CriterionStatus::Fail) {
        MilestoneStatus::Failed
    } else if is_any(CriterionStatus::Defer) || is_any(CriterionStatus::Pending) || criteria.is_empty() {
        MilestoneStatus::Deferred
    } else {
        MilestoneStatus::Verified
    }
}
