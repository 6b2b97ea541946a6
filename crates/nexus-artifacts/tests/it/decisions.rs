//! What is decided from artifacts: the status of a milestone, and whether research can be planned on.

use std::fs;

use nexus_artifacts::{
    Artifact, CriterionResult, CriterionStatus, Kind, MilestoneStatus, ReasoningAgreement, ResearchVerdict,
    follows, reconcile, verdict,
};
use proptest::prelude::*;

use super::support::{findings, good};

fn statuses() -> impl Strategy<Value = Vec<CriterionStatus>> {
    proptest::collection::vec(proptest::sample::select(CriterionStatus::ALL.to_vec()), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_milestone_is_what_its_worst_criterion_is(statuses in statuses()) {
        let criteria: Vec<CriterionResult> =
            statuses.iter().map(|status| CriterionResult { id: String::new(), text: String::new(), status: *status }).collect();
        let expected = if statuses.contains(&CriterionStatus::Fail) {
            MilestoneStatus::Failed
        } else if !statuses.is_empty() && statuses.iter().all(|status| *status == CriterionStatus::Pass) {
            MilestoneStatus::Verified
        } else {
            MilestoneStatus::Deferred
        };
        prop_assert_eq!(follows(&criteria), expected);
    }
}

/// The output of one researcher, with decisions and their reasoning.
fn output(spawn_index: usize, decisions: &[(&str, &str)]) -> Artifact {
    let mut text = format!(
        "---\nschema_version: 1\nagent: a\nspawn_index: {spawn_index}\nseed_delta: 0\ntask_query_hash: x\ndecision_count: {}\nrisk_count: 0\npattern_count: 0\nopen_question_count: 0\nsource_count: 0\n---\n\n## Decisions\n",
        decisions.len()
    );
    for (number, (decision, reasoning)) in decisions.iter().enumerate() {
        text += &format!("\n### D-{}: {decision}\n", number + 1);
        if !reasoning.is_empty() {
            text += &format!("- **Reasoning:** {reasoning}\n");
        }
    }
    text += "\n## Risks\n\n_None._\n\n## Patterns\n\n_None._\n\n## Open Questions\n\n_None._\n\n## Sources\n\n_None._\n";
    Artifact::parse(Kind::ResearcherOutput, text)
}

#[test]
fn reasoning_is_compared_by_its_words() {
    use ReasoningAgreement::{Identical, Orthogonal, Overlapping, Unknown};
    let compare = |traces: &[&str]| ReasoningAgreement::compare(traces.iter().copied());
    assert_eq!(compare(&[]), Unknown);
    assert_eq!(compare(&["one", "", "  "]), Unknown);
    assert_eq!(compare(&["It is fast.", "it is  FAST", "It, is fast!"]), Identical);
    assert_eq!(compare(&["it is fast and small and old", "it is fast and small"]), Overlapping);
    assert_eq!(compare(&["it is fast", "nobody maintains the others"]), Orthogonal);
    assert_eq!(compare(&["it is fast", "it is fast", "nobody maintains the others"]), Overlapping);
}

#[test]
fn agreement_is_computed_from_decisions_and_their_reasoning() {
    let agreed = |one: &str, two: &str, three: &str| {
        let outputs =
            [output(0, &[("Use X", one)]), output(1, &[("use `X`.", two)]), output(2, &[("Use X", three)])];
        reconcile(&outputs).unwrap().agreement_score
    };
    assert_eq!(agreed("it is fast", "nobody maintains others", "license fits us"), 1.0);
    assert_eq!(agreed("a b c d e f g h i", "a b c d e f g h i j", "z"), 0.9);
    assert_eq!(agreed("it is fast", "it is fast", "it is fast"), 0.75);
    assert_eq!(agreed("it is fast", "", ""), 0.5);
    let outputs = [
        output(2, &[("Use X", "it is fast")]),
        output(0, &[("Use X", "nobody maintains the others"), ("Keep Y", "a")]),
        output(7, &[("Use Z", "b"), ("Use Z", "b")]),
    ];
    let found = reconcile(&outputs).unwrap();
    assert_eq!((found.k, found.contested_count, found.agreement_score), (3, 2, 0.333));
    assert_eq!(found.decisions[0].from, [0, 2]);
    // One output that says something twice is one voice.
    assert_eq!(
        found.contested.iter().map(|one| (one.text.as_str(), one.from.clone())).collect::<Vec<_>>(),
        [("Keep Y", vec![0]), ("Use Z", vec![7])]
    );
    assert!(reconcile(&[]).is_err());
    assert!(reconcile(&[output(1, &[]), output(1, &[])]).is_err());
    assert!(reconcile(&[Artifact::parse(Kind::ResearcherOutput, "nothing")]).is_err());
    assert_eq!(reconcile(&[output(0, &[])]).unwrap().agreement_score, 1.0);
}

#[test]
fn a_verdict_follows_from_the_numbers() {
    use ResearchVerdict::{Clean, IssuesFlagged, NeedsReSpawn};
    for (score, contested, unresolved, expected) in [
        (1.0, 0, 0, Clean),
        (0.8, 0, 0, Clean),
        (0.799, 0, 0, IssuesFlagged),
        (0.8, 1, 0, IssuesFlagged),
        (0.5, 2, 0, IssuesFlagged),
        (0.499, 0, 0, NeedsReSpawn),
        (1.0, 3, 0, NeedsReSpawn),
        (1.0, 1, 1, NeedsReSpawn),
        (f64::NAN, 0, 0, IssuesFlagged),
    ] {
        assert_eq!(verdict(score, contested, unresolved), expected, "{score} {contested} {unresolved}");
    }
}

#[test]
fn the_gate_goes_by_the_outputs_and_by_who_picked() {
    let (folder, artifacts) = good();
    let milestone = "M001".parse().unwrap();
    let gate = artifacts.gate(milestone).unwrap();
    assert_eq!(
        (gate.verdict, gate.agreement_score, gate.contested_count),
        (ResearchVerdict::IssuesFlagged, 0.5, 1)
    );
    let path = artifacts.milestone_file(milestone, Kind::Research);
    assert!(artifacts.write_research(milestone).unwrap_err().to_string().contains("is there"));
    fs::remove_file(&path).unwrap();
    artifacts.write_research(milestone).unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    // Nobody picked yet.
    assert_eq!(artifacts.gate(milestone).unwrap().verdict, ResearchVerdict::NeedsReSpawn);
    let text = fs::read_to_string(&path).unwrap();
    let text = text
        .replace("verdict:** Unresolved", "verdict:** Discard")
        .replace("verdict: needs_re_spawn", "verdict: issues_flagged");
    fs::write(&path, text).unwrap();
    assert_eq!(findings(folder.path()), Vec::<String>::new());
    assert_eq!(artifacts.gate(milestone).unwrap().verdict, ResearchVerdict::IssuesFlagged);
    // A better number in the file changes nothing.
    let text = fs::read_to_string(&path).unwrap().replace("agreement_score: 0.5", "agreement_score: 1.0");
    fs::write(&path, text).unwrap();
    assert_eq!(artifacts.gate(milestone).unwrap().agreement_score, 0.5);
    fs::remove_dir_all(folder.path().join(".nubos-pilot/milestones/M001/research")).unwrap();
    assert_eq!(artifacts.gate(milestone).unwrap().agreement_score, 1.0);
    fs::remove_file(&path).unwrap();
    assert!(artifacts.gate(milestone).is_err());
}

#[test]
fn a_report_says_the_status_that_follows() {
    let (_folder, artifacts) = good();
    let milestone = "M001".parse().unwrap();
    let report = artifacts.report(milestone).unwrap();
    assert_eq!(report.status, Some(MilestoneStatus::Deferred));
    assert_eq!(report.criteria.len(), 3);
    assert_eq!(report.slices.len(), 2);
    assert!(artifacts.report("M009".parse().unwrap()).is_err());
}
