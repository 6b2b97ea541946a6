//! One judgement of a step.

use std::{collections::BTreeSet, fmt};

use nexus_work::{DraftError, Faults, shown};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{EvidenceId, StepEvidence};

/// Bounds of a verdict. Source: our own, so that the next agent reads it whole.
pub(super) const MAX_CONCERNS: usize = 32;
pub(super) const MAX_TEXT_BYTES: usize = 2 << 10;

/// Where a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReviewDecision {
    /// It is as it should be: what was changed is committed, and the next step begins.
    Advance,
    /// It is not: the step is done anew.
    Retry,
    /// It cannot be mended by doing it anew: a person has to look.
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

/// Whether a criterion holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It holds, and the evidence shows it.
    Pass,
    /// It does not hold, or could not be shown to.
    Fail,
}

/// What is judged of one criterion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CriterionJudgement {
    /// The criterion's id; `outcome` is what the step's plan entry is to reach.
    pub id: String,
    /// Whether it holds.
    pub judgement: Judgement,
    /// Ids of tests, probes or diff lines of this step that show it. A pass needs one.
    #[serde(default)]
    pub evidence: Vec<EvidenceId>,
}

/// Something that keeps the step from advancing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concern {
    /// What is wrong. At most 2 KiB.
    pub text: String,
    /// Ids of tests, probes or diff lines of this step that show it: at least one.
    pub evidence: Vec<EvidenceId>,
}

/// A verdict as a reviewer writes it. [`ReviewVerdict::settle`] makes the verdict of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerdictDraft {
    /// Where the step goes.
    pub decision: ReviewDecision,
    /// Every criterion of the step, once.
    pub criteria: Vec<CriterionJudgement>,
    /// What keeps the step from advancing. With one, it does not.
    #[serde(default)]
    pub blocking_concerns: Vec<Concern>,
    /// How far the work is what was asked for: 0 to 1.
    pub alignment: f64,
    /// What to do otherwise next time. At most 2 KiB.
    #[serde(default)]
    pub retry_hint: Option<String>,
}

/// What a verdict is held against: what it has to judge, and what it may cite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewBasis {
    /// Ids of all criteria that are to be judged: [`ProblemBrief::criteria_of`](crate::ProblemBrief::criteria_of).
    pub criteria: BTreeSet<String>,
    /// What was run in the step, and what it changed.
    pub evidence: StepEvidence,
}

/// One reviewer's judgement of a step, checked.
///
/// What holds of every value, however it was made:
///
/// - Each criterion of its basis is judged once, and nothing else is.
/// - A pass and a concern cite something of the basis's evidence, and nothing cites what is not in it.
/// - [`ReviewDecision::Advance`] has no concern and no failed criterion.
///
/// [`ReviewVerdict::settle`] is the only way to one. Its serialized form holds the basis, and is read by settling it anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct ReviewVerdict {
    draft: VerdictDraft,
    basis: ReviewBasis,
}

impl ReviewVerdict {
    /// The verdict that a draft comes to on this basis: a concern or a failed criterion turns `advance` into `retry`;
    /// `retry` and `escalate` stay.
    ///
    /// # Errors
    ///
    /// [`DraftError`] with everything that is wrong: a criterion that is missing, unknown or there twice; a pass or a concern
    /// that nothing shows; an id of something that was not run in the step; an alignment outside of 0 to 1; a bound that is
    /// exceeded.
    pub fn settle(mut draft: VerdictDraft, basis: ReviewBasis) -> Result<Self, DraftError> {
        check(&draft, &basis)?;
        let fails = |judged: &CriterionJudgement| judged.judgement == Judgement::Fail;
        if draft.decision == ReviewDecision::Advance
            && (!draft.blocking_concerns.is_empty() || draft.criteria.iter().any(fails))
        {
            draft.decision = ReviewDecision::Retry;
        }
        Ok(Self { draft, basis })
    }

    /// Where the step goes, as far as this reviewer is concerned.
    pub fn decision(&self) -> ReviewDecision {
        self.draft.decision
    }

    /// What was judged of each criterion.
    pub fn criteria(&self) -> &[CriterionJudgement] {
        &self.draft.criteria
    }

    /// What keeps the step from advancing.
    pub fn blocking_concerns(&self) -> &[Concern] {
        &self.draft.blocking_concerns
    }

    /// How far the work is what was asked for: 0 to 1.
    pub fn alignment(&self) -> f64 {
        self.draft.alignment
    }

    /// What to do otherwise next time.
    pub fn retry_hint(&self) -> Option<&str> {
        self.draft.retry_hint.as_deref()
    }

    /// What it was held against.
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
            faults.add(format!("{place}.id"), format!("{} is not to be judged in this step", shown(id)));
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
    // Not a number is in no range either.
    if !(0.0..=1.0).contains(&draft.alignment) {
        faults.add("alignment", format!("{} is not from 0 to 1", draft.alignment));
    }
    if let Some(hint) = &draft.retry_hint {
        faults.text("retry_hint", hint, MAX_TEXT_BYTES);
    }
    faults.into_result("verdict")
}

/// A verdict as it lies in a file.
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
