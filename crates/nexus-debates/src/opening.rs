//! Text that a panelist submits before it reads the texts of other panelists.

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::Frame,
    names::check_text,
    position::{PositionDraft, Positions, positions},
};

/// Maximum number of arguments in one opening, and maximum length of one, in bytes. Source: our own bounds.
const MOST_ARGUMENTS: usize = 24;
pub(crate) const MOST_ARGUMENT_BYTES: usize = 8 << 10;

/// An opening, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpeningDraft {
    /// One position on each claim.
    pub positions: Vec<PositionDraft>,
    /// At most 24 arguments for your positions.
    pub arguments: Vec<ArgumentDraft>,
    /// Your whole opinion, at most 8 KiB.
    pub summary: String,
}

/// An argument, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArgumentDraft {
    /// The id of the claim that it is about.
    pub claim: String,
    /// The argument, at most 8 KiB. It is kept as you write it, byte for byte.
    pub text: String,
}

/// A submission of a panelist, with an id that Nexus assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// `NAME.o1` in an opening, `NAME.r2.1` in the rebuttal of round 2, `NAME.final` in a final statement.
    pub id: String,
    /// Subject: a claim or a finding.
    pub about: String,
    /// Text, as submitted.
    pub text: String,
}

/// A checked opening: a position on each claim, and arguments about existing claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    positions: Positions,
    arguments: Vec<Argument>,
    summary: Argument,
}

impl Opening {
    /// Checks a draft of the panelist `name`, and assigns ids to its arguments.
    ///
    /// # Errors
    ///
    /// All faults of the draft.
    pub fn accept(draft: &OpeningDraft, frame: &Frame, name: &str) -> Result<Self, DraftError> {
        let mut faults = Faults::default();
        let positions = positions(&mut faults, frame, &draft.positions);
        faults.count("arguments", draft.arguments.len(), MOST_ARGUMENTS);
        for (at, argument) in draft.arguments.iter().enumerate() {
            if frame.claim(&argument.claim).is_none() {
                faults.add(format!("arguments[{at}].claim"), "no claim has this id");
            }
            check_text(&mut faults, &format!("arguments[{at}].text"), &argument.text, MOST_ARGUMENT_BYTES);
        }
        check_text(&mut faults, "summary", &draft.summary, MOST_ARGUMENT_BYTES);
        faults.into_result("opening")?;
        // Ids count the arguments in the order of the draft, so that a record has the same ids when it is read again.
        let argument = |(at, argument): (usize, &ArgumentDraft)| Argument {
            id: format!("{name}.o{}", at + 1),
            about: argument.claim.clone(),
            text: argument.text.clone(),
        };
        Ok(Self {
            positions,
            arguments: draft.arguments.iter().enumerate().map(argument).collect(),
            summary: Argument {
                id: format!("{name}.summary"),
                about: "the question".to_owned(),
                text: draft.summary.clone(),
            },
        })
    }

    /// Returns the position on each claim.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Returns the arguments and the summary, in the order of their submission.
    pub fn arguments(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().chain([&self.summary])
    }
}
