//! Result of a milestone, by its criteria.

use serde::Serialize;

use super::{
    document::Artifact,
    frontmatter::{CriterionStatus, MilestoneStatus},
};

/// A success criterion of a verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CriterionResult {
    /// Id, such as `SC-1`.
    pub id: String,
    /// Text of the criterion.
    pub text: String,
    /// Result of the criterion. Pending if it is undecided, or if the file has an unknown word.
    pub status: CriterionStatus,
}

/// Returns the criteria of a verification, in order.
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

/// Returns the status of a milestone with these criteria. Failed: a criterion failed. Otherwise deferred: a criterion is
/// deferred or undecided, or the list is empty. Otherwise verified.
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
