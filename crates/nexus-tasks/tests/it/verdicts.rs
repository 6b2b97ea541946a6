//! No path makes a verdict that advances with a concern, a missing criterion or an id that was not run.

use std::collections::BTreeSet;

use nexus_core::VendorId;
use nexus_tasks::{
    Concern, CriterionJudgement, EvidenceId, Judgement, PanelReview, ReviewBasis, ReviewDecision,
    ReviewVerdict, ReviewVote, StepEvidence, VerdictDraft,
};
use proptest::{collection::vec, prelude::*};

/// Two criteria beside the outcome; one run of the tests, probe 7, lines 10 to 12 of a file.
fn basis() -> ReviewBasis {
    let mut evidence = StepEvidence::new();
    evidence.add_test();
    evidence.add_probe(7);
    evidence.add_lines("src/sum.rs", 10..=12);
    ReviewBasis { criteria: ["negatives", "outcome", "zero"].map(str::to_owned).into(), evidence }
}

fn judged(id: &str, judgement: Judgement) -> CriterionJudgement {
    CriterionJudgement { id: id.to_owned(), judgement, evidence: vec![EvidenceId::probe(7)] }
}

fn advance() -> VerdictDraft {
    VerdictDraft {
        decision: ReviewDecision::Advance,
        criteria: ["outcome", "negatives", "zero"].map(|id| judged(id, Judgement::Pass)).into(),
        blocking_concerns: Vec::new(),
        alignment: 0.9,
        retry_hint: None,
    }
}

fn concern() -> Concern {
    Concern { text: "-0 is printed.".to_owned(), evidence: vec![EvidenceId::diff("src/sum.rs", 11, 11)] }
}

fn decision(draft: VerdictDraft) -> ReviewDecision {
    ReviewVerdict::settle(draft, basis()).unwrap().decision()
}

fn places(draft: VerdictDraft) -> Vec<String> {
    let error = ReviewVerdict::settle(draft, basis()).unwrap_err();
    error.faults.into_iter().map(|fault| fault.place).collect()
}

#[test]
fn a_concern_or_a_failed_criterion_turns_advance_into_retry_and_escalate_stays() {
    assert_eq!(decision(advance()), ReviewDecision::Advance);
    let with_concern = VerdictDraft { blocking_concerns: vec![concern()], ..advance() };
    assert_eq!(decision(with_concern.clone()), ReviewDecision::Retry);
    let mut failed = advance();
    failed.criteria[2] = CriterionJudgement { evidence: Vec::new(), ..judged("zero", Judgement::Fail) };
    assert_eq!(decision(failed), ReviewDecision::Retry);
    let escalated = VerdictDraft { decision: ReviewDecision::Escalate, ..with_concern };
    assert_eq!(decision(escalated), ReviewDecision::Escalate);
    assert_eq!(
        decision(VerdictDraft { decision: ReviewDecision::Retry, ..advance() }),
        ReviewDecision::Retry
    );
}

#[test]
fn every_criterion_is_judged_once_and_shown_by_what_was_run() {
    let mut odd = advance();
    odd.criteria[0].evidence.clear();
    odd.criteria[1].evidence = vec![EvidenceId::probe(8)];
    odd.criteria[2] = judged("outcome", Judgement::Pass);
    odd.criteria.push(judged("speed", Judgement::Pass));
    odd.blocking_concerns = vec![Concern { text: String::new(), evidence: Vec::new() }];
    odd.alignment = f64::NAN;
    odd.retry_hint = Some("x".repeat(3_000));
    let expected = [
        "criteria[0].evidence",
        "criteria[1].evidence",
        "criteria[2].id",
        "criteria[3].id",
        "criteria",
        "blocking_concerns[0].text",
        "blocking_concerns[0].evidence",
        "alignment",
        "retry_hint",
    ];
    assert_eq!(places(odd), expected);
    for alignment in [-0.01, 1.01, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(places(VerdictDraft { alignment, ..advance() }), ["alignment"]);
    }
}

#[test]
fn a_stored_verdict_is_settled_anew() {
    let verdict = ReviewVerdict::settle(advance(), basis()).unwrap();
    let stored = serde_json::to_value(&verdict).unwrap();
    assert_eq!(serde_json::from_value::<ReviewVerdict>(stored.clone()).unwrap(), verdict);

    let mut forged = stored.clone();
    forged["verdict"]["blocking_concerns"] = serde_json::to_value([concern()]).unwrap();
    assert_eq!(serde_json::from_value::<ReviewVerdict>(forged).unwrap().decision(), ReviewDecision::Retry);
    let mut forged = stored.clone();
    forged["verdict"]["criteria"][0]["evidence"] = serde_json::json!(["probe-99"]);
    assert!(serde_json::from_value::<ReviewVerdict>(forged).is_err());
    let mut forged = stored;
    forged["verdict"]["criteria"].as_array_mut().unwrap().pop();
    assert!(serde_json::from_value::<ReviewVerdict>(forged).is_err());
}

fn vote(seat: &str, vendor: &str, draft: VerdictDraft) -> ReviewVote {
    let verdict = ReviewVerdict::settle(draft, basis()).unwrap();
    ReviewVote { seat: seat.to_owned(), vendor: VendorId::from(vendor), verdict }
}

fn panel(votes: &[ReviewVote], min_vendors: usize) -> PanelReview {
    PanelReview::of(votes, &basis(), min_vendors).unwrap()
}

#[test]
fn an_advance_needs_votes_of_two_vendors_and_a_refusal_of_one_seat() {
    let (one, two) = (vote("facts", "alpha", advance()), vote("edges", "beta", advance()));
    let PanelReview::Settled(both) = panel(&[one.clone(), two.clone()], 2) else { panic!("settled") };
    assert_eq!(both.decision(), ReviewDecision::Advance);
    // Two seats that one vendor ran, one seat, no seat.
    let same = vote("edges", "alpha", advance());
    assert_eq!(panel(&[one.clone(), same], 2), PanelReview::Short { vendors: 1, needed: 2 });
    assert_eq!(panel(std::slice::from_ref(&two), 2), PanelReview::Short { vendors: 1, needed: 2 });
    assert_eq!(panel(&[], 0), PanelReview::Short { vendors: 0, needed: 1 });
    assert!(matches!(panel(std::slice::from_ref(&two), 1), PanelReview::Settled(_)));
    for decision in [ReviewDecision::Retry, ReviewDecision::Escalate] {
        let refusing = vote("edges", "beta", VerdictDraft { decision, ..advance() });
        for votes in [vec![refusing.clone()], vec![one.clone(), refusing.clone()]] {
            let PanelReview::Settled(verdict) = panel(&votes, 2) else { panic!("settled") };
            assert_eq!(verdict.decision(), decision);
        }
    }
}

#[test]
fn a_panel_unites_what_its_seats_found() {
    let mut failed =
        VerdictDraft { alignment: 0.2, retry_hint: Some("Look at zero.".to_owned()), ..advance() };
    failed.criteria[2] = judged("zero", Judgement::Fail);
    failed.blocking_concerns = vec![concern()];
    let votes = [
        vote("facts", "alpha", failed.clone()),
        vote("edges", "beta", failed),
        vote("tone", "beta", advance()),
    ];
    let PanelReview::Settled(verdict) = panel(&votes, 2) else { panic!("settled") };
    assert_eq!(verdict.decision(), ReviewDecision::Retry);
    assert_eq!(verdict.alignment(), 0.2);
    assert_eq!(verdict.blocking_concerns(), [concern()]);
    assert_eq!(verdict.retry_hint(), Some("Look at zero.\nLook at zero."));
    let failed: Vec<&str> = verdict
        .criteria()
        .iter()
        .filter(|judged| judged.judgement == Judgement::Fail)
        .map(|judged| &*judged.id)
        .collect();
    assert_eq!(failed, ["zero"]);
}

fn any_evidence() -> impl Strategy<Value = Vec<EvidenceId>> {
    let ids = vec![
        EvidenceId::test(1),
        EvidenceId::test(2),
        EvidenceId::probe(7),
        EvidenceId::diff("src/sum.rs", 11, 30),
        EvidenceId::diff("src/sum.rs", 13, 30),
    ];
    vec(prop::sample::select(ids), 0..3)
}

fn any_draft() -> impl Strategy<Value = VerdictDraft> {
    use ReviewDecision::{Advance, Escalate, Retry};
    let judgement = prop::sample::select(vec![Judgement::Pass, Judgement::Pass, Judgement::Fail]);
    let id = prop::sample::select(vec!["outcome", "negatives", "zero", "speed"]);
    let criterion = (id, judgement, any_evidence())
        .prop_map(|(id, judgement, evidence)| CriterionJudgement { id: id.to_owned(), judgement, evidence });
    let concerns = vec(any_evidence().prop_map(|evidence| Concern { text: "x".to_owned(), evidence }), 0..3);
    let whole = any::<[bool; 3]>().prop_map(|fails| {
        let ids = ["outcome", "negatives", "zero"].into_iter().zip(fails);
        ids.map(|(id, fails)| judged(id, if fails { Judgement::Fail } else { Judgement::Pass })).collect()
    });
    let criteria = prop_oneof![vec(criterion, 0..5), whole];
    (prop::sample::select(vec![Advance, Retry, Escalate]), criteria, concerns, -0.1..1.1).prop_map(
        |(decision, criteria, blocking_concerns, alignment)| VerdictDraft {
            decision,
            criteria,
            blocking_concerns,
            alignment,
            retry_hint: None,
        },
    )
}

/// What must hold of every verdict that advances.
fn holds(verdict: &ReviewVerdict) -> bool {
    let basis = basis();
    let ids: Vec<&String> = verdict.criteria().iter().map(|judged| &judged.id).collect();
    let each_once = ids.len() == basis.criteria.len()
        && ids.iter().copied().collect::<BTreeSet<_>>() == basis.criteria.iter().collect();
    let concerns = verdict.blocking_concerns().iter().map(|concern| &concern.evidence);
    let cited = verdict.criteria().iter().map(|judged| &judged.evidence).chain(concerns).flatten();
    let shown = verdict
        .criteria()
        .iter()
        .all(|judged| judged.judgement == Judgement::Fail || !judged.evidence.is_empty());
    let passes = verdict.criteria().iter().all(|judged| judged.judgement == Judgement::Pass);
    let may_advance = passes && verdict.blocking_concerns().is_empty();
    each_once
        && shown
        && cited.into_iter().all(|id| basis.evidence.contains(id))
        && (verdict.decision() != ReviewDecision::Advance || may_advance)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_draft_makes_an_advance_that_was_not_shown(draft in any_draft()) {
        let stored = serde_json::json!({ "verdict": draft, "basis": basis() });
        let read = serde_json::from_value::<ReviewVerdict>(stored).ok();
        let settled = ReviewVerdict::settle(draft, basis()).ok();
        prop_assert_eq!(&read, &settled);
        prop_assert!(settled.as_ref().is_none_or(holds));
    }

    #[test]
    fn no_panel_advances_on_one_vendor_or_over_a_refusal(
        votes in vec((any_draft(), prop::sample::select(vec!["alpha", "beta"])), 0..9)
    ) {
        let votes: Vec<ReviewVote> = votes
            .into_iter()
            .filter_map(|(draft, vendor)| {
                let verdict = ReviewVerdict::settle(draft, basis()).ok()?;
                Some(ReviewVote { seat: "seat".to_owned(), vendor: VendorId::from(vendor), verdict })
            })
            .collect();
        let vendors = votes.iter().map(|vote| &vote.vendor).collect::<BTreeSet<_>>().len();
        let refused = votes.iter().any(|vote| vote.verdict.decision() != ReviewDecision::Advance);
        match panel(&votes, 2) {
            PanelReview::Settled(verdict) => {
                prop_assert!(holds(&verdict));
                prop_assert_eq!(verdict.decision() == ReviewDecision::Advance, !refused && vendors == 2);
            }
            PanelReview::Short { vendors: told, .. } => {
                prop_assert!(!refused && vendors < 2 && told == vendors);
            }
        }
    }
}
