//! A panelist's final statement.

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::Frame,
    names::check_text,
    opening::{Argument, MOST_ARGUMENT_BYTES},
    position::{PositionDraft, Positions, positions},
};

/// A final statement, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatementDraft {
    /// Your position on each claim in the end. `abstain` where you cannot tell.
    pub positions: Vec<PositionDraft>,
    /// Your final opinion, and the facts that would change it, at most 8 KiB.
    pub statement: String,
}

/// A checked final statement: a position on each claim, and a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    positions: Positions,
    text: Argument,
}

impl Statement {
    /// Checks a draft of the panelist `name`.
    ///
    /// # Errors
    ///
    /// All faults of the draft.
    pub fn accept(draft: &StatementDraft, frame: &Frame, name: &str) -> Result<Self, DraftError> {
        let mut faults = Faults::default();
        let positions = positions(&mut faults, frame, &draft.positions);
        check_text(&mut faults, "statement", &draft.statement, MOST_ARGUMENT_BYTES);
        faults.into_result("statement")?;
        let text = Argument {
            id: format!("{name}.final"),
            about: "the question".to_owned(),
            text: draft.statement.clone(),
        };
        Ok(Self { positions, text })
    }

    /// Returns the position on each claim.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Returns the statement, as submitted.
    pub fn text(&self) -> &Argument {
        &self.text
    }
}
