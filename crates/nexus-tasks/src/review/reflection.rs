//! What a reflector may answer to a verdict that does not advance.

use std::path::Path;

use nexus_work::{AgentTypes, DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem_brief::{Amendment, BriefLimits, ProblemBrief};

/// A reflector's answer. There is none that leads to an advance: a reviewer alone can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Reflection {
    /// The brief was not clear enough: the step is done anew, by the brief with what is added.
    ReBrief {
        /// What is added.
        amendment: Amendment,
    },
    /// The step is done anew as it stands.
    ReDispatch {
        /// What to do otherwise.
        hint: String,
    },
    /// It cannot be mended: the task ends as escalated.
    AcceptTerminal {
        /// Why.
        reason: String,
    },
}

impl Reflection {
    /// Checks an answer: an amendment is merged into the brief, which has to hold afterwards, on the tree at `root`.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with everything that is wrong.
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
