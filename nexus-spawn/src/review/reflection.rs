//! What a reflector may answer to a verdict that does not advance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem_brief::Amendment;

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
