//! Answers of a reflector to a verdict that does not advance.

use std::path::Path;

use nexus_work::{AgentTypes, DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem_brief::{Amendment, BriefLimits, ProblemBrief};

/// A reflector's answer. No answer leads to an advance: only a reviewer can decide that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reflection {
    /// The brief was not clear enough: the step is repeated with the amended brief.
    ReBrief {
        /// Additions to the brief.
        amendment: Amendment,
    },
    /// The step is repeated with the same brief.
    ReDispatch {
        /// Advice for the next attempt.
        hint: String,
    },
    /// The step cannot be fixed: the task ends as escalated.
    AcceptTerminal {
        /// Reason.
        reason: String,
    },
}

impl Reflection {
    /// Checks an answer. An amendment is merged into the brief, which must then be valid on the tree at `root`.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with every fault.
    pub fn check(&self, brief: &ProblemBrief, types: &AgentTypes, root: &Path) -> Result<(), DraftError> {
        let (place, text) = match self {
            Self::ReBrief { amendment } => return brief.amended(amendment, types, root).map(drop),
            Self::ReDispatch { hint } => ("re_dispatch.hint", hint),
            Self::AcceptTerminal { reason } => ("accept_terminal.reason", reason),
        };
        let mut faults = Faults::default();
        faults.text(place, text, BriefLimits::TEXT_BYTES);
        faults.into_result("reflection")
    }
}
