//! Additions of a reflector to a brief.

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BriefDraft, BriefLimits, Criterion};

/// Additions to a brief after a step that did not advance. It can only add: no field changes scope, tiers or plan, and none removes or
/// rewords a criterion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Amendment {
    /// Clarifications, for the next agent that does the work. At most 2 KiB each.
    #[serde(default)]
    pub clarifications: Vec<String>,
    /// Further success criteria, under ids that the brief does not have.
    #[serde(default)]
    pub criteria: Vec<Criterion>,
    /// Further topics that are not part of the problem.
    #[serde(default)]
    pub out_of_scope: Vec<String>,
}

impl Amendment {
    /// Returns the draft with the additions.
    pub(super) fn merged(&self, draft: &BriefDraft) -> Result<BriefDraft, DraftError> {
        let mut faults = Faults::default();
        if self.clarifications.is_empty() && self.criteria.is_empty() && self.out_of_scope.is_empty() {
            faults.add("amendment", "adds nothing; write at least one clarification");
        }
        // Check the clarifications here, because they have other indexes in the merged brief. Its own check covers
        // the rest.
        for (index, text) in self.clarifications.iter().enumerate() {
            faults.text(&format!("clarifications[{index}]"), text, BriefLimits::TEXT_BYTES);
        }
        faults.into_result("amendment")?;
        let mut merged = draft.clone();
        merged.clarifications.extend(self.clarifications.iter().cloned());
        merged.criteria.extend(self.criteria.iter().cloned());
        merged.out_of_scope.extend(self.out_of_scope.iter().cloned());
        Ok(merged)
    }
}
