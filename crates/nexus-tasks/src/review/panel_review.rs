//! What several verdicts on one step come to.

use std::collections::BTreeSet;

use nexus_core::VendorId;
use nexus_work::DraftError;
use serde::{Deserialize, Serialize};

use super::{
    Concern, CriterionJudgement, Judgement, ReviewBasis, ReviewDecision, ReviewVerdict, VerdictDraft,
    verdict::{MAX_CONCERNS, MAX_TEXT_BYTES},
};

/// One seat's verdict, and the vendor that really ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewVote {
    /// The seat, by its name in the panel.
    pub seat: String,
    /// Who ran it, as the turn's provenance says; not who was listed.
    pub vendor: VendorId,
    /// What it came to.
    pub verdict: ReviewVerdict,
}

/// The judgement of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum PanelReview {
    /// The votes come to this.
    Settled(ReviewVerdict),
    /// Every vote would advance, but they are of too few vendors: it does not.
    Short {
        /// How many vendors took part.
        vendors: usize,
        /// How many have to.
        needed: usize,
    },
}

impl PanelReview {
    /// The union of the votes: one that refutes is enough. The decision is the worst of them, a criterion fails if one says
    /// so, concerns and evidence are those of all, and the alignment is the least. Beyond what one verdict may hold, concerns
    /// and hints are left out of the union, the later seats' first; the votes have them.
    ///
    /// An advance needs votes of at least `min_vendors` vendors, and of one. Retry and escalate count from one vote.
    ///
    /// # Errors
    ///
    /// [`DraftError`] if a vote judges something else than `basis` asks for.
    pub fn of(votes: &[ReviewVote], basis: &ReviewBasis, min_vendors: usize) -> Result<Self, DraftError> {
        let vendors = votes.iter().map(|vote| &vote.vendor).collect::<BTreeSet<_>>().len();
        let needed = min_vendors.max(1);
        let decision = votes.iter().map(|vote| vote.verdict.decision()).max();
        let decision = decision.unwrap_or(ReviewDecision::Advance);
        if decision == ReviewDecision::Advance && vendors < needed {
            return Ok(Self::Short { vendors, needed });
        }
        let verdicts = || votes.iter().map(|vote| &vote.verdict);
        let concerns = verdicts().flat_map(ReviewVerdict::blocking_concerns);
        let draft = VerdictDraft {
            decision,
            criteria: basis.criteria.iter().map(|id| judged(id, verdicts())).collect(),
            blocking_concerns: different(concerns).take(MAX_CONCERNS).cloned().collect(),
            alignment: verdicts().map(ReviewVerdict::alignment).fold(1.0, f64::min),
            retry_hint: joined(verdicts().filter_map(ReviewVerdict::retry_hint)),
        };
        ReviewVerdict::settle(draft, basis.clone()).map(Self::Settled)
    }
}

/// Every concern once.
fn different<'v>(concerns: impl Iterator<Item = &'v Concern>) -> impl Iterator<Item = &'v Concern> {
    let mut seen: Vec<&Concern> = Vec::new();
    concerns.filter(move |concern| {
        let is_new = !seen.contains(concern);
        seen.push(concern);
        is_new
    })
}

/// The hints, each on lines of its own, as long as they fit.
fn joined<'v>(hints: impl Iterator<Item = &'v str>) -> Option<String> {
    let mut joined = String::new();
    for hint in hints {
        if joined.len() + 1 + hint.len() <= MAX_TEXT_BYTES {
            joined.push_str(if joined.is_empty() { "" } else { "\n" });
            joined.push_str(hint);
        }
    }
    (!joined.is_empty()).then_some(joined)
}

/// What the verdicts come to for one criterion.
fn judged<'v>(id: &str, verdicts: impl Iterator<Item = &'v ReviewVerdict>) -> CriterionJudgement {
    let mut judgement = Judgement::Pass;
    let mut evidence = BTreeSet::new();
    for found in verdicts.flat_map(ReviewVerdict::criteria).filter(|found| found.id == id) {
        if found.judgement == Judgement::Fail {
            judgement = Judgement::Fail;
        }
        evidence.extend(found.evidence.iter().cloned());
    }
    CriterionJudgement { id: id.to_owned(), judgement, evidence: evidence.into_iter().collect() }
}
