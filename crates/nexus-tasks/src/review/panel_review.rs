//! Union of several verdicts on one step.

use std::collections::BTreeSet;

use nexus_core::VendorId;
use nexus_work::DraftError;
use serde::{Deserialize, Serialize};

use super::{
    Concern, CriterionJudgement, Judgement, ReviewBasis, ReviewDecision, ReviewVerdict, VerdictDraft,
    verdict::{MAX_CONCERNS, MAX_TEXT_BYTES},
};

/// One seat's verdict, and the vendor that actually ran it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewVote {
    /// The seat, by its name in the panel.
    pub seat: String,
    /// Vendor that ran it, by the turn's provenance. It may differ from the configured one.
    pub vendor: VendorId,
    /// The seat's verdict.
    pub verdict: ReviewVerdict,
}

/// The judgement of a panel.
#[derive(Clone, Debug, PartialEq)]
pub enum PanelReview {
    /// Union of the votes.
    Settled(ReviewVerdict),
    /// Every vote would advance, but they come from too few vendors. The step does not advance.
    Short {
        /// Number of vendors that took part.
        vendors: usize,
        /// Number of vendors that an advance needs.
        needed: usize,
    },
}

impl PanelReview {
    /// Returns the union of the votes; one vote against suffices. The decision is the worst one. A criterion fails if it fails in one vote.
    /// Concerns and evidence are those of all votes, and the alignment is the lowest. Concerns and hints beyond the bounds of a verdict are
    /// dropped, those of later seats first; the votes still have them.
    ///
    /// An advance needs votes of at least `min_vendors` vendors, and always of at least one. Retry and escalate count from one vote.
    ///
    /// # Errors
    ///
    /// [`DraftError`] if a vote does not judge exactly the criteria of `basis`.
    pub fn of(votes: &[ReviewVote], basis: &ReviewBasis, min_vendors: usize) -> Result<Self, DraftError> {
        let vendors = votes.iter().map(|vote| &vote.vendor).collect::<BTreeSet<_>>().len();
        let needed = min_vendors.max(1);
        // `ReviewDecision` is ordered from advance to escalate, so the maximum is the worst.
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

/// Returns every concern once.
fn different<'v>(concerns: impl Iterator<Item = &'v Concern>) -> impl Iterator<Item = &'v Concern> {
    let mut seen: Vec<&Concern> = Vec::new();
    concerns.filter(move |concern| {
        let is_new = !seen.contains(concern);
        seen.push(concern);
        is_new
    })
}

/// Joins the hints, each on its own lines, as long as they fit.
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

/// Returns the union of the verdicts on one criterion.
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
