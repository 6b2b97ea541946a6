//! One judgement of a step.

use std::{collections::BTreeSet, fmt};

use nexus_work::{DraftError, Faults, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{EvidenceId, StepEvidence};

/// Bounds of a verdict. Source: our own, so that the next agent reads all of it.
pub(super) const MAX_CONCERNS: usize = 32;
pub(super) const MAX_TEXT_BYTES: usize = 2 << 10;

/// Decision on a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewDecision {
    /// The step is good: its changes are committed, and the next step begins.
    Advance,
    /// The step is not good: it is repeated.
    Retry,
    /// Repeating the step cannot fix it: a person has to look.
    Escalate,
}

impl fmt::Display for ReviewDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Advance => "advance",
            Self::Retry => "retry",
            Self::Escalate => "escalate",
        })
    }
}

/// Judgement of a criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// The criterion holds, and the evidence shows it.
    Pass,
    /// The criterion does not hold, or no evidence shows that it holds.
    Fail,
}

/// Judgement of one criterion, with evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CriterionJudgement {
    /// The criterion's id; `outcome` stands for the outcome of the step's plan entry.
    pub id: String,
    /// The judgement.
    pub judgement: Judgement,
    /// Ids of tests, probes or diff lines of this step that show it. A pass needs one.
    #[serde(default)]
    pub evidence: Vec<EvidenceId>,
}

/// A fault that prevents the step from advancing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concern {
    /// The fault. At most 2 KiB.
    pub text: String,
    /// Ids of tests, probes or diff lines of this step that show it: at least one.
    pub evidence: Vec<EvidenceId>,
}

/// A verdict as a reviewer writes it. [`ReviewVerdict::settle`] turns it into the verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictDraft {
    /// Decision on the step.
    pub decision: ReviewDecision,
    /// Every criterion of the step, once.
    pub criteria: Vec<CriterionJudgement>,
    /// Faults that prevent the step from advancing. With any of them, it does not advance.
    #[serde(default)]
    pub blocking_concerns: Vec<Concern>,
    /// Degree to which the work is what was requested: 0 to 1.
    pub alignment: f64,
    /// Advice for the next attempt. At most 2 KiB.
    #[serde(default)]
    pub retry_hint: Option<String>,
}

/// Basis of a verdict: the criteria to judge, and the evidence to cite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewBasis {
    /// Ids of all criteria to judge: [`ProblemBrief::criteria_of`](crate::ProblemBrief::criteria_of).
    pub criteria: BTreeSet<String>,
    /// Tests and probes that ran in the step, and its changes.
    pub evidence: StepEvidence,
}

/// One reviewer's judgement of a step, checked.
///
/// These rules hold for every value, however it was made:
///
/// - Each criterion of its basis is judged once, and no other criterion is judged.
/// - Every pass and every concern cites evidence of the basis, and all cited evidence is in the basis.
/// - [`ReviewDecision::Advance`] has no concern and no failed criterion.
///
/// Only [`ReviewVerdict::settle`] creates one. Its serialized form contains the basis; reading it settles the verdict again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct ReviewVerdict {
    draft: VerdictDraft,
    basis: ReviewBasis,
}

impl ReviewVerdict {
    /// Settles a draft on this basis: a concern or a failed criterion turns `advance` into `retry`; `retry` and `escalate` stay.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with every fault: a missing, unknown or repeated criterion; a pass or a concern without evidence; evidence that does
    /// not exist in the step; an alignment outside of 0 to 1; an exceeded bound.
    pub fn settle(mut draft: VerdictDraft, basis: ReviewBasis) -> Result<Self, DraftError> {
        check(&draft, &basis)?;
        let fails = |judged: &CriterionJudgement| judged.judgement == Judgement::Fail;
        // A verdict with faults must not advance, even if its `decision` is `advance`.
        if draft.decision == ReviewDecision::Advance
            && (!draft.blocking_concerns.is_empty() || draft.criteria.iter().any(fails))
        {
            draft.decision = ReviewDecision::Retry;
        }
        Ok(Self { draft, basis })
    }

    /// Returns this reviewer's decision on the step.
    pub fn decision(&self) -> ReviewDecision {
        self.draft.decision
    }

    /// Returns the judgement of each criterion.
    pub fn criteria(&self) -> &[CriterionJudgement] {
        &self.draft.criteria
    }

    /// Returns the faults that prevent the step from advancing.
    pub fn blocking_concerns(&self) -> &[Concern] {
        &self.draft.blocking_concerns
    }

    /// Returns the degree to which the work is what was requested: 0 to 1.
    pub fn alignment(&self) -> f64 {
        self.draft.alignment
    }

    /// Returns the advice for the next attempt.
    pub fn retry_hint(&self) -> Option<&str> {
        self.draft.retry_hint.as_deref()
    }

    /// Returns the basis of the verdict.
    pub fn basis(&self) -> &ReviewBasis {
        &self.basis
    }
}

fn check(draft: &VerdictDraft, basis: &ReviewBasis) -> Result<(), DraftError> {
    let mut faults = Faults::default();
    let cites = |place: &str, ids: &[EvidenceId], faults: &mut Faults| {
        for id in ids.iter().filter(|id| !basis.evidence.contains(id)) {
            faults.add(format!("{place}.evidence"), format!("{id} was not run or changed in this step"));
        }
    };
    let mut judged = BTreeSet::new();
    for (index, CriterionJudgement { id, judgement, evidence }) in draft.criteria.iter().enumerate() {
        let place = format!("criteria[{index}]");
        if !basis.criteria.contains(id) {
            faults.add(
                format!("{place}.id"),
                format!("{} is not a criterion to judge in this step", shown(id)),
            );
        } else if !judged.insert(id) {
            faults.add(format!("{place}.id"), format!("{id:?} is judged twice"));
        }
        if *judgement == Judgement::Pass && evidence.is_empty() {
            faults.add(
                format!("{place}.evidence"),
                "a pass needs the id of a test, a probe or diff lines that show it",
            );
        }
        cites(&place, evidence, &mut faults);
    }
    for id in basis.criteria.iter().filter(|id| !judged.contains(id)) {
        faults.add("criteria", format!("{id:?} is missing"));
    }
    faults.count("blocking_concerns", draft.blocking_concerns.len(), MAX_CONCERNS);
    for (index, Concern { text, evidence }) in draft.blocking_concerns.iter().enumerate() {
        let place = format!("blocking_concerns[{index}]");
        faults.text(&format!("{place}.text"), text, MAX_TEXT_BYTES);
        if evidence.is_empty() {
            faults.add(
                format!("{place}.evidence"),
                "a concern needs the id of a test, a probe or diff lines that show it",
            );
        }
        cites(&place, evidence, &mut faults);
    }
    // Also rejects NaN, which no range contains.
    if !(0.0..=1.0).contains(&draft.alignment) {
        faults.add("alignment", format!("{} is not from 0 to 1", draft.alignment));
    }
    if let Some(hint) = &draft.retry_hint {
        faults.text("retry_hint", hint, MAX_TEXT_BYTES);
    }
    faults.into_result("verdict")
}

/// A verdict as stored in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    verdict: VerdictDraft,
    basis: ReviewBasis,
}

impl TryFrom<Stored> for ReviewVerdict {
    type Error = DraftError;

    fn try_from(Stored { verdict, basis }: Stored) -> Result<Self, DraftError> {
        Self::settle(verdict, basis)
    }
}

impl From<ReviewVerdict> for Stored {
    fn from(ReviewVerdict { draft, basis }: ReviewVerdict) -> Self {
        Self { verdict: draft, basis }
    }
}
