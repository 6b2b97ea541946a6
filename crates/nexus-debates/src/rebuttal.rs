//! A panelist's answer to the case against its position.

use std::collections::BTreeSet;

use nexus_work::{DraftError, Faults};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    frame::Frame,
    names::check_text,
    opening::{Argument, MOST_ARGUMENT_BYTES},
    position::{PositionDraft, Positions, positions},
    tension::Tensions,
};

/// A rebuttal, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RebuttalDraft {
    /// One answer to each finding that you are on a side of.
    pub answers: Vec<AnswerDraft>,
    /// Your position on each claim now, revised or not.
    pub positions: Vec<PositionDraft>,
}

/// An answer to a finding, as a panelist submits it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AnswerDraft {
    /// The id of the finding.
    pub finding: String,
    /// Your answer, at most 8 KiB: the points that you concede, and your arguments against the others. No other
    /// panelist reads it.
    pub text: String,
}

/// A checked rebuttal: an answer to each finding with the panelist on a side, and a position on each claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuttal {
    answers: Vec<Argument>,
    positions: Positions,
}

impl Rebuttal {
    /// Checks a draft of the panelist `name` in a round, counted from 1.
    ///
    /// # Errors
    ///
    /// All faults of the draft.
    pub fn accept(
        draft: &RebuttalDraft,
        frame: &Frame,
        tensions: &Tensions,
        name: &str,
        round: u32,
    ) -> Result<Self, DraftError> {
        let mut faults = Faults::default();
        let asked: BTreeSet<&str> = tensions.against(name).map(|(finding, _)| finding.id.as_str()).collect();
        let mut answered = BTreeSet::new();
        for (at, answer) in draft.answers.iter().enumerate() {
            let place = format!("answers[{at}].finding");
            if !asked.contains(answer.finding.as_str()) {
                faults.add(place, "no finding with this id has you on a side");
            } else if !answered.insert(answer.finding.as_str()) {
                faults.add(place, "the finding is answered already");
            }
            check_text(&mut faults, &format!("answers[{at}].text"), &answer.text, MOST_ARGUMENT_BYTES);
        }
        for finding in asked.difference(&answered) {
            faults.add("answers", format!("the finding {finding} is not answered"));
        }
        let positions = positions(&mut faults, frame, &draft.positions);
        faults.into_result("rebuttal")?;
        let answer = |(at, answer): (usize, &AnswerDraft)| Argument {
            id: format!("{name}.r{round}.{}", at + 1),
            about: answer.finding.clone(),
            text: answer.text.clone(),
        };
        Ok(Self { answers: draft.answers.iter().enumerate().map(answer).collect(), positions })
    }

    /// Returns the answers, in the order of their submission.
    pub fn answers(&self) -> &[Argument] {
        &self.answers
    }

    /// Returns the position on each claim.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }
}
