//! Handoff: the answer that an execution agent submits about its work.

use std::path::{Component, Path};

use nexus_work::{DraftError, Faults, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{EvidenceId, StepEvidence};

/// Bounds of a handoff. Source: our own, so that a reviewer reads all of it.
const MAX_CLAIMS: usize = 32;
const MAX_FILES: usize = 256;
const MAX_TEXT_BYTES: usize = 2 << 10;

/// A handoff as an agent writes it. [`Handoff::accept`] checks it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HandoffDraft {
    /// Work done and findings, each with the evidence that shows it: 1 to 32.
    pub claims: Vec<Claim>,
    /// Changed files, as paths relative to the project's root.
    #[serde(default)]
    pub files: Vec<String>,
    /// Next action.
    pub action: HandoffAction,
}

/// One statement of an agent about its work. It is only a claim: a review decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The statement. At most 2 KiB.
    pub text: String,
    /// Ids of tests, probes or diff lines of this step that show it.
    #[serde(default)]
    pub evidence: Vec<EvidenceId>,
}

/// Next action after the work of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum HandoffAction {
    /// The outcome of this step is reached.
    StepDone,
    /// The whole problem is solved, also where the plan has more steps.
    Complete,
    /// The step cannot be done as it stands. Its changes are undone.
    Blocked {
        /// The obstacle, and a way to remove it. At most 2 KiB.
        reason: String,
    },
}

/// A checked handoff.
///
/// A handoff that is read from a file is checked again, except for the evidence of its claims: the file does not hold the step's
/// evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "HandoffDraft", into = "HandoffDraft")]
pub struct Handoff(HandoffDraft);

impl Handoff {
    /// Checks a draft against the evidence of the step.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with every fault: a claim without text, evidence that does not exist in the step, a path that leads out of the
    /// tree, an exceeded bound.
    pub fn accept(draft: HandoffDraft, evidence: &StepEvidence) -> Result<Self, DraftError> {
        Self::checked(draft, |id| evidence.contains(id))
    }

    fn checked(draft: HandoffDraft, was_run: impl Fn(&EvidenceId) -> bool) -> Result<Self, DraftError> {
        let mut faults = Faults::default();
        if draft.claims.is_empty() {
            faults.add("claims", "is empty; describe the work, and name its evidence");
        }
        faults.count("claims", draft.claims.len(), MAX_CLAIMS);
        for (index, claim) in draft.claims.iter().enumerate() {
            faults.text(&format!("claims[{index}].text"), &claim.text, MAX_TEXT_BYTES);
            for id in claim.evidence.iter().filter(|id| !was_run(id)) {
                faults.add(format!("claims[{index}].evidence"), format!("{id} was not run in this step"));
            }
        }
        faults.count("files", draft.files.len(), MAX_FILES);
        let is_in_tree = |file: &str| {
            let mut parts = Path::new(file).components().peekable();
            parts.peek().is_some()
                && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
        };
        for (index, file) in draft.files.iter().enumerate().filter(|(_, file)| !is_in_tree(file)) {
            faults.add(
                format!("files[{index}]"),
                format!("{} is not a path relative to the project's root", shown(file)),
            );
        }
        if let HandoffAction::Blocked { reason } = &draft.action {
            faults.text("action.blocked.reason", reason, MAX_TEXT_BYTES);
        }
        faults.into_result("handoff")?;
        Ok(Self(draft))
    }

    /// Returns the claims of the handoff.
    pub fn claims(&self) -> &[Claim] {
        &self.0.claims
    }

    /// Returns the files that the agent claims to have changed.
    pub fn files(&self) -> &[String] {
        &self.0.files
    }

    /// Returns the next action.
    pub fn action(&self) -> &HandoffAction {
        &self.0.action
    }
}

impl TryFrom<HandoffDraft> for Handoff {
    type Error = DraftError;

    fn try_from(draft: HandoffDraft) -> Result<Self, DraftError> {
        // The file does not contain the evidence of the step, so the cited ids cannot be checked.
        Self::checked(draft, |_| true)
    }
}

impl From<Handoff> for HandoffDraft {
    fn from(handoff: Handoff) -> Self {
        handoff.0
    }
}

/// End of a step's work. For a band it is the worst end of its units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BandOutcome {
    /// An agent failed before it submitted a handoff.
    Failed {
        /// Errors of all failed units.
        errors: Vec<String>,
    },
    /// An agent could not do its part.
    Blocked {
        /// Reasons of all blocked units.
        reasons: Vec<String>,
    },
    /// The agents claim to have reached the outcome of the step.
    StepDone,
    /// Every unit claims that the whole problem is solved.
    Complete,
}

impl BandOutcome {
    /// Returns the worst end of `units`, in the order failed, blocked, `step_done`, `complete`. An error stands for an agent that submitted
    /// nothing. An empty list is a failure.
    pub fn worst<'h>(units: impl IntoIterator<Item = Result<&'h Handoff, String>>) -> Self {
        let (mut errors, mut reasons) = (Vec::new(), Vec::new());
        let (mut units_done, mut all_complete) = (0, true);
        for unit in units {
            match unit.map(Handoff::action) {
                Err(error) => errors.push(error),
                Ok(HandoffAction::Blocked { reason }) => reasons.push(reason.clone()),
                Ok(HandoffAction::StepDone) => (units_done, all_complete) = (units_done + 1, false),
                Ok(HandoffAction::Complete) => units_done += 1,
            }
        }
        match (errors.is_empty(), reasons.is_empty()) {
            (false, _) => Self::Failed { errors },
            (true, false) => Self::Blocked { reasons },
            (true, true) if units_done == 0 => Self::Failed { errors: vec!["nobody was asked".to_owned()] },
            (true, true) if all_complete => Self::Complete,
            (true, true) => Self::StepDone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handoff(action: HandoffAction) -> Handoff {
        let claims = vec![Claim { text: "It keeps the sign.".to_owned(), evidence: Vec::new() }];
        Handoff::accept(HandoffDraft { claims, files: Vec::new(), action }, &StepEvidence::new()).unwrap()
    }

    #[test]
    fn the_worst_unit_decides_on_a_band() {
        let [done, complete] = [HandoffAction::StepDone, HandoffAction::Complete].map(handoff);
        let blocked = handoff(HandoffAction::Blocked { reason: "no server".to_owned() });
        let worst = |units: &[Result<&Handoff, &str>]| {
            BandOutcome::worst(units.iter().map(|unit| unit.map_err(str::to_owned)))
        };
        assert_eq!(worst(&[Ok(&complete), Ok(&complete)]), BandOutcome::Complete);
        assert_eq!(worst(&[Ok(&complete), Ok(&done)]), BandOutcome::StepDone);
        let reasons = vec!["no server".to_owned()];
        assert_eq!(worst(&[Ok(&done), Ok(&blocked), Ok(&complete)]), BandOutcome::Blocked { reasons });
        let errors = vec!["it crashed".to_owned()];
        assert_eq!(worst(&[Ok(&blocked), Err("it crashed")]), BandOutcome::Failed { errors });
        assert!(matches!(worst(&[]), BandOutcome::Failed { .. }));
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let draft: HandoffDraft = serde_json::from_str(
            r#"{
                "claims": [{ "text": " ", "evidence": ["test-1"] }, { "text": "\u0007" }],
                "files": ["src/sum.rs", "../other", "/etc/passwd", ""],
                "action": { "blocked": { "reason": "" } }
            }"#,
        )
        .unwrap();
        let error = Handoff::accept(draft, &StepEvidence::new()).unwrap_err();
        let places: Vec<&str> = error.faults.iter().map(|fault| &*fault.place).collect();
        let told = [
            "claims[0].text",
            "claims[0].evidence",
            "claims[1].text",
            "files[1]",
            "files[2]",
            "files[3]",
            "action.blocked.reason",
        ];
        assert_eq!(places, told);
    }
}
