//! What must hold of a brief, on real trees.

use std::path::PathBuf;

use nexus_core::PathAccess;
use nexus_tasks::{Amendment, BriefDraft, Criterion, PlanEntryDraft, ProblemBrief};
use nexus_work::{AgentType, AgentTypes, DraftError, agent::Surface};
use proptest::{collection::vec, option, prelude::*};
use tempfile::TempDir;

/// A tree in which a task begins.
struct Tree {
    _folder: TempDir,
    root: PathBuf,
}

impl Tree {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["src/a", "src/b", "docs", "tests"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        Self { _folder: folder, root }
    }

    fn accept(&self, draft: BriefDraft) -> Result<ProblemBrief, DraftError> {
        ProblemBrief::accept(draft, &types(), &self.root)
    }

    /// The places that are wrong.
    fn faults(&self, draft: BriefDraft) -> Vec<String> {
        let error = self.accept(draft).unwrap_err();
        error.faults.into_iter().map(|fault| fault.place).collect()
    }
}

fn types() -> AgentTypes {
    let types = AgentTypes::built_in().with_tier("careful", "execution", Surface::all()).unwrap();
    let types = types.with_type(AgentType::new("painter", "careful", "paint")).unwrap();
    types.with_type(AgentType::new("surveyor", "operations", "survey")).unwrap()
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

fn entry(agent_type: &str) -> PlanEntryDraft {
    let agents = types();
    let found = agents.find(agent_type).unwrap();
    PlanEntryDraft {
        tier: found.tier.clone(),
        phase: found.phase.clone(),
        agent_type: agent_type.to_owned(),
        outcome: "It works.".to_owned(),
        ..PlanEntryDraft::default()
    }
}

fn unit(group: &str, slice: &[&str]) -> PlanEntryDraft {
    PlanEntryDraft {
        parallel_group: Some(group.to_owned()),
        write_slice: Some(texts(slice)),
        ..entry("executor")
    }
}

fn draft(plan: Vec<PlanEntryDraft>) -> BriefDraft {
    BriefDraft {
        problem: "Negative amounts are rounded to zero.".to_owned(),
        criteria: vec![Criterion { id: "negatives".to_owned(), text: "sum(-1, -2) is -3".to_owned() }],
        read: texts(&["."]),
        write: texts(&["src"]),
        plan,
        ..BriefDraft::default()
    }
}

fn shape(brief: &ProblemBrief) -> Vec<&str> {
    brief.plan().entries().iter().map(|entry| entry.agent_type()).collect()
}

#[test]
fn work_that_changes_files_is_reviewed_whether_the_plan_says_so_or_not() {
    let tree = Tree::new();
    let plan = vec![
        entry("surveyor"),
        entry("executor"),
        entry("painter"),
        entry("reviewer"),
        unit("g", &["src/a"]),
        unit("g", &["src/b"]),
    ];
    let brief = tree.accept(draft(plan)).unwrap();
    let expected =
        ["surveyor", "executor", "reviewer", "painter", "reviewer", "executor", "executor", "reviewer"];
    assert_eq!(shape(&brief), expected);
    let steps: Vec<(usize, usize, bool)> =
        brief.plan().steps().map(|step| (step.first(), step.work().len(), step.review().is_some())).collect();
    assert_eq!(steps, [(0, 1, false), (1, 1, true), (3, 1, true), (5, 2, true)]);
    assert_eq!(brief.plan().last_execution().unwrap().first(), 5);
}

#[test]
fn the_tier_and_phase_of_a_review_are_set_whatever_was_written() {
    let mut review = entry("reviewer");
    (review.tier, review.phase) = ("execution".to_owned(), "implement".to_owned());
    let brief = Tree::new().accept(draft(vec![entry("executor"), review])).unwrap();
    let review = &brief.plan().entries()[1];
    assert_eq!((review.tier(), review.phase(), review.is_review()), ("operations", "review", true));
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let tree = Tree::new();
    let mut bad = draft(vec![entry("executor")]);
    bad.problem = " ".to_owned();
    bad.criteria = vec![
        Criterion { id: "a".to_owned(), text: "x".to_owned() },
        Criterion { id: "a".to_owned(), text: "\u{1b}[31m".to_owned() },
        Criterion { id: "outcome".to_owned(), text: "x".to_owned() },
        Criterion { id: "../a".to_owned(), text: "x".to_owned() },
    ];
    bad.read = texts(&["../other", "/etc", ""]);
    bad.write = texts(&["src/.GIT/hooks"]);
    bad.plan[0].criteria = texts(&["b"]);
    bad.plan[0].agent_type = "exeuctor".to_owned();
    let expected = [
        "problem",
        "criteria[1].id",
        "criteria[1].text",
        "criteria[2].id",
        "criteria[3].id",
        "plan[0].criteria",
        "plan[0].agent_type",
        "read[0]",
        "read[1]",
        "read[2]",
        "write[0]",
    ];
    assert_eq!(tree.faults(bad.clone()), expected);
    let text = tree.accept(bad).unwrap_err().to_string();
    assert!(text.contains("executor"), "the nearest name is told: {text}");
}

#[test]
fn a_plan_has_something_to_do_and_reviews_follow_it() {
    let tree = Tree::new();
    assert_eq!(tree.faults(draft(Vec::new())), ["plan"]);
    assert_eq!(tree.faults(draft(vec![entry("reviewer")])), ["plan", "plan[0]"]);
    let twice = vec![entry("executor"), entry("reviewer"), entry("reviewer")];
    assert_eq!(tree.faults(draft(twice)), ["plan[2]"]);
    assert_eq!(tree.faults(draft(vec![entry("executor"); 13])), ["plan"]);
    assert!(tree.accept(draft(vec![entry("executor"); 12])).is_ok());
    for not_planned in ["orchestrator", "reflector"] {
        assert_eq!(tree.faults(draft(vec![entry(not_planned)])), ["plan[0].agent_type"], "{not_planned}");
    }
    let mut wrong = entry("executor");
    (wrong.tier, wrong.phase) = ("operations".to_owned(), "review".to_owned());
    assert_eq!(tree.faults(draft(vec![wrong])), ["plan[0].tier", "plan[0].phase"]);
}

#[test]
fn a_band_is_of_units_that_follow_one_another_each_with_a_slice() {
    let tree = Tree::new();
    let no_slice = PlanEntryDraft { write_slice: None, ..unit("g", &[]) };
    assert_eq!(tree.faults(draft(vec![unit("g", &["src/a"]), no_slice])), ["plan[1].write_slice"]);
    assert_eq!(tree.faults(draft(vec![unit("g", &["src/a"]), unit("g", &[])])), ["plan[1].write_slice"]);
    let apart = vec![unit("g", &["src/a"]), entry("executor"), unit("g", &["src/b"])];
    assert_eq!(tree.faults(draft(apart)), ["plan[2].parallel_group"]);
    let mut review = entry("reviewer");
    review.parallel_group = Some("g".to_owned());
    let faults = tree.faults(draft(vec![unit("g", &["src/a"]), review]));
    assert!(faults.contains(&"plan[1].parallel_group".to_owned()), "{faults:?}");
    let mut reads = entry("surveyor");
    (reads.parallel_group, reads.write_slice) = (Some("g".to_owned()), Some(texts(&["src/b"])));
    assert_eq!(tree.faults(draft(vec![unit("g", &["src/a"]), reads])), ["plan[1].agent_type"]);
}

#[test]
fn slices_of_a_band_have_nothing_in_common_and_lie_in_what_may_be_written() {
    let tree = Tree::new();
    for other in ["src", "src/a/deep", "src/a", "./src//a"] {
        let band = vec![unit("g", &["src/a"]), unit("g", &[other])];
        let error = tree.accept(draft(band)).unwrap_err();
        assert!(error.to_string().contains("plan[0]"), "{other}: {error}");
    }
    let error = tree.accept(draft(vec![unit("g", &["src/a"]), unit("g", &["docs"])])).unwrap_err();
    assert!(error.to_string().contains("outside the write paths"), "{error}");
    // What is done one after the other may write the same.
    assert!(tree.accept(draft(vec![unit("g", &["src/a"]), unit("h", &["src/a"])])).is_ok());
}

#[test]
fn what_may_be_written_may_be_read_and_touched() {
    let tree = Tree::new();
    let mut unread = draft(vec![entry("executor")]);
    unread.read = texts(&["docs", "src/a"]);
    assert_eq!(tree.faults(unread), ["write[0]"]);
    for rule in ["src", "s*", "**/src"] {
        let mut untouchable = draft(vec![entry("executor")]);
        untouchable.do_not_touch = vec![rule.parse().unwrap()];
        assert_eq!(tree.faults(untouchable), ["write[0]"], "{rule}");
    }
    let mut part = draft(vec![entry("executor")]);
    part.do_not_touch = vec!["src/a".parse().unwrap()];
    let scope = tree.accept(part).unwrap().scope(&tree.root, [], None).unwrap();
    assert!(scope.check_path("src/a/x", PathAccess::Write).is_err());
    assert!(scope.check_path("src/b/x", PathAccess::Write).is_ok());
}

#[test]
fn a_unit_may_write_its_slice_and_read_the_rest() {
    let tree = Tree::new();
    let brief = tree.accept(draft(vec![unit("g", &["src/a"]), unit("g", &["src/b"])])).unwrap();
    let scope = brief.scope(&tree.root, [], Some(&brief.plan().entries()[0])).unwrap();
    assert!(scope.check_path("src/a/x", PathAccess::Write).is_ok());
    assert!(scope.check_path("src/b/x", PathAccess::Write).is_err());
    assert!(scope.check_path("src/b/x", PathAccess::Read).is_ok());
}

#[cfg(unix)]
#[test]
fn slices_that_came_to_overlap_are_refused_when_the_work_is_given_out() {
    let tree = Tree::new();
    let brief = tree.accept(draft(vec![unit("g", &["src/a"]), unit("g", &["src/b"])])).unwrap();
    std::fs::remove_dir(tree.root.join("src/b")).unwrap();
    std::os::unix::fs::symlink("a", tree.root.join("src/b")).unwrap();
    assert!(brief.scope(&tree.root, [], None).is_err());
}

#[test]
fn an_amendment_only_adds_and_is_held_to_the_same_rules() {
    let tree = Tree::new();
    let brief = tree.accept(draft(vec![entry("executor")])).unwrap();
    let more = |id: &str| Amendment {
        clarifications: texts(&["Zero has no sign."]),
        criteria: vec![Criterion { id: id.to_owned(), text: "sum() is 0".to_owned() }],
        ..Amendment::default()
    };
    let amended = brief.amended(&more("zero"), &types(), &tree.root).unwrap();
    assert_eq!(amended.problem().1, ["Zero has no sign."]);
    assert_eq!(amended.criteria().len(), 2);
    assert_eq!(amended.plan(), brief.plan());
    let error = brief.amended(&more("negatives"), &types(), &tree.root).unwrap_err();
    assert_eq!(error.faults[0].place, "criteria[1].id");
    let error = brief.amended(&Amendment::default(), &types(), &tree.root).unwrap_err();
    assert_eq!(error.what, "amendment");
    for field in ["read", "write", "plan", "tier", "do_not_touch"] {
        let text = format!(r#"{{ "clarifications": ["x"], "{field}": [] }}"#);
        assert!(serde_json::from_str::<Amendment>(&text).is_err(), "{field}");
    }
}

#[test]
fn after_the_last_step_every_criterion_is_judged() {
    let mut two = draft(vec![entry("executor"), entry("executor")]);
    two.criteria.push(Criterion { id: "zero".to_owned(), text: "sum() is 0".to_owned() });
    two.plan[0].criteria = texts(&["zero"]);
    let brief = Tree::new().accept(two).unwrap();
    let steps: Vec<_> = brief.plan().steps().collect();
    assert_eq!(brief.criteria_of(&steps[0], false), ["outcome", "zero"]);
    assert_eq!(brief.criteria_of(&steps[0], true), ["outcome", "negatives", "zero"]);
    assert_eq!(brief.criteria_of(&steps[1], false), ["outcome"]);
}

fn any_entry() -> impl Strategy<Value = PlanEntryDraft> {
    let agent =
        prop::sample::select(vec!["executor", "painter", "reviewer", "surveyor", "reflector", "nobody"]);
    let paths =
        vec(prop::sample::select(vec!["src", "src/a", "src/b", "src/a/c", "docs", "../x", "."]), 0..3);
    let group = option::of(prop::sample::select(vec!["g", "h", ""]));
    let tier = prop::sample::select(vec!["execution", "operations", "careful"]);
    let phase = prop::sample::select(vec!["implement", "review", "paint", "survey"]);
    (agent, option::of(paths), group, tier, phase, any::<bool>()).prop_map(
        |(agent, slice, group, tier, phase, fits)| {
            let fitting = (fits && agent != "nobody").then(|| entry(agent));
            let (tier, phase) = match &fitting {
                Some(entry) => (entry.tier.clone(), entry.phase.clone()),
                None => (tier.to_owned(), phase.to_owned()),
            };
            PlanEntryDraft {
                tier,
                phase,
                agent_type: agent.to_owned(),
                outcome: "x".to_owned(),
                write_slice: slice.map(|slice| texts(&slice)),
                parallel_group: group.map(str::to_owned),
                ..PlanEntryDraft::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_accepted_keeps_every_promise(plan in vec(any_entry(), 0..8)) {
        let tree = Tree::new();
        let Ok(brief) = tree.accept(draft(plan)) else { return Ok(()) };
        let entries = brief.plan().entries();
        prop_assert!(entries.iter().any(|entry| !entry.is_review()));
        for (index, entry) in entries.iter().enumerate() {
            let next = entries.get(index + 1);
            if entry.is_execution() {
                let in_band = next.is_some_and(|next| {
                    entry.parallel_group().is_some() && next.parallel_group() == entry.parallel_group()
                });
                prop_assert!(in_band || next.is_some_and(|next| next.is_review()));
            }
            if entry.is_review() {
                prop_assert!(index > 0 && !entries[index - 1].is_review());
                prop_assert_eq!((entry.tier(), entry.phase()), ("operations", "review"));
                prop_assert_eq!(entry.parallel_group(), None);
            }
        }
        for step in brief.plan().steps() {
            prop_assert!(step.work().iter().all(|entry| !entry.is_review()));
            let units = step.work().iter().filter(|_| step.work().len() > 1);
            for (index, unit) in units.clone().enumerate() {
                prop_assert!(unit.is_execution() && unit.write_slice().is_some_and(|slice| !slice.is_empty()));
                let scope = brief.scope(&tree.root, [], Some(unit)).unwrap();
                for (other, theirs) in units.clone().enumerate().filter(|(other, _)| *other != index) {
                    for path in theirs.write_slice().unwrap_or_default() {
                        let deeper = format!("{path}/file-of-{other}");
                        prop_assert!(scope.check_path(&deeper, PathAccess::Write).is_err());
                    }
                }
            }
        }
        // Reading what was written comes to the same.
        let again: BriefDraft = serde_json::from_value(serde_json::to_value(&brief).unwrap()).unwrap();
        prop_assert_eq!(tree.accept(again).unwrap(), brief);
    }
}
