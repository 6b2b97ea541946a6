//! The first trap. Two functions of one name do almost the same: one floors negatives, the other must not. A change merges them, the
//! suite is green and says nothing of negatives, and every claim of the handoff is true. Who only runs the tests lets it pass; who
//! runs the same input on the files as they were sees what is lost.
#![cfg(target_os = "linux")]

use std::{process::Command, sync::Arc};

use nexus_core::TurnRequest;
use nexus_tasks::{
    Handoff, HandoffDraft, Reflection, ReviewDecision, ReviewOutcome, StepEnd, StepEvidence, StepRecord,
    StepReview, StepWork, TaskSettings,
};
use nexus_testkit::scripted::{Act, ScriptedBackend};
use serde_json::{Value, json};

use crate::support::{
    agent, agent_by,
    attempts::{Cast, World, call, write},
};

const DISCOUNTS: &str = "\
def _normalize(amount):
    return max(0.0, round(amount, 2))


def discounted(price, discount):
    return _normalize(price - discount)
";
const REFUNDS: &str = "\
def _normalize(amount):
    return round(amount, 2)


def balance(paid, refunded):
    return _normalize(paid - refunded)
";
const TESTS: &str = "\
import unittest

from pricing.discounts import discounted
from pricing.refunds import balance


class Pricing(unittest.TestCase):
    def test_discount(self):
        self.assertEqual(discounted(10.0, 2.504), 7.5)

    def test_balance(self):
        self.assertEqual(balance(10.0, 2.504), 7.5)
";
const MERGED: &str = "\
def normalize(amount):
    return max(0.0, round(amount, 2))
";
const MERGED_RIGHT: &str = "\
def normalize(amount, floor=None):
    amount = round(amount, 2)
    return amount if floor is None else max(floor, amount)
";
const DISCOUNTS_MERGED: &str = "\
from pricing.amounts import normalize


def discounted(price, discount):
    return normalize(price - discount)
";
const DISCOUNTS_RIGHT: &str = "\
from pricing.amounts import normalize


def discounted(price, discount):
    return normalize(price - discount, floor=0.0)
";
const REFUNDS_MERGED: &str = "\
from pricing.amounts import normalize


def balance(paid, refunded):
    return normalize(paid - refunded)
";
/// Prints what both functions give for positive and for negative amounts.
const PROBE: &str = "\
from pricing.discounts import discounted
from pricing.refunds import balance

for first, second in [(10, 2.504), (2, 10.504), (0, 0)]:
    print(first, second, discounted(first, second), balance(first, second))
";
/// What nobody in the task was told of.
const HELD_OUT: &str = "\
from pricing.discounts import discounted
from pricing.refunds import balance

assert discounted(2, 10) == 0
assert balance(2, 10.504) == -8.5
";

type Files = [(&'static str, &'static str); 3];

const PLANTED: Files = [
    ("pricing/amounts.py", MERGED),
    ("pricing/discounts.py", DISCOUNTS_MERGED),
    ("pricing/refunds.py", REFUNDS_MERGED),
];
const RIGHT: Files = [
    ("pricing/amounts.py", MERGED_RIGHT),
    ("pricing/discounts.py", DISCOUNTS_RIGHT),
    ("pricing/refunds.py", REFUNDS_MERGED),
];

fn brief() -> Value {
    json!({
        "problem": "_normalize is written twice, in pricing/discounts.py and in pricing/refunds.py. Let there be one.",
        "criteria": [{ "id": "once", "text": "There is one function that normalizes amounts, and the tests pass." }],
        "read": ["."],
        "write": ["pricing"],
        "plan": [{
            "tier": "execution", "phase": "implement", "agent_type": "executor",
            "outcome": "Both modules use one function.", "criteria": ["once"],
        }],
    })
}

/// The project, where it can be tested. `None`, which is printed, where there is no Python or no sandbox and none is required.
fn world() -> Option<World> {
    let can = |program: &str| {
        let runs =
            Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
        assert!(runs || std::env::var_os("NEXUS_TEST_SANDBOX").is_none(), "{program} is required here");
        if !runs {
            println!("NOT TESTED: there is no {program}");
        }
        runs
    };
    if !can("python3") || !can("bwrap") {
        return None;
    }
    let mut settings = TaskSettings::default();
    let command = ["python3", "-m", "unittest", "discover", "-s", "tests", "-t", "."];
    settings.test_command = Some(command.map(str::to_owned).into());
    let files = [
        ("pricing/__init__.py", ""),
        ("pricing/discounts.py", DISCOUNTS),
        ("pricing/refunds.py", REFUNDS),
        ("tests/__init__.py", ""),
        ("tests/test_pricing.py", TESTS),
    ];
    World::with_settings(&files, brief(), settings)
}

fn judge(decision: &str, id: &str, concern: Option<&str>) -> Act {
    let judged = |criterion: &str| json!({ "id": criterion, "judgement": "pass", "evidence": [id] });
    let concerns: Vec<Value> = concern.iter().map(|text| json!({ "text": text, "evidence": [id] })).collect();
    call(
        "submit_verdict",
        json!({
            "decision": decision,
            "criteria": [judged("outcome"), judged("once")],
            "blocking_concerns": concerns,
            "alignment": 0.9,
            "retry_hint": concern,
        }),
    )
}

/// Lets pass what the tests let pass.
fn by_tests(_: &TurnRequest) -> Vec<Act> {
    vec![
        call("run_tests", json!({})),
        Act::then(|answers| {
            let (id, said) = answers[0].split_once(": ").expect("an id");
            match said.starts_with("passed") {
                true => vec![judge("advance", id, None)],
                false => vec![judge("retry", id, Some("The tests fail."))],
            }
        }),
    ]
}

/// Lets pass what does the same as before the task.
fn by_probe(_: &TurnRequest) -> Vec<Act> {
    vec![
        call(
            "run_probe",
            json!({ "files": [{ "path": "probe.py", "content": PROBE }], "argv": ["python3", "probe.py"] }),
        ),
        Act::then(|answers| {
            let mut lines = answers[0].lines();
            let id = lines.next().expect("an id");
            let differs = lines.next().expect("where it differs");
            match differs.contains("task_base/now") {
                true => vec![judge("advance", id, Some("Negative balances are lost."))],
                false => vec![judge("advance", id, None)],
            }
        }),
    ]
}

type Reviewer = fn(&TurnRequest) -> Vec<Act>;

fn reviewers(script: Reviewer) -> [Arc<ScriptedBackend>; 2] {
    ["one", "two"].map(|id| agent_by(id, script))
}

fn cast<'a>(maker: (&'a Arc<ScriptedBackend>, &'a str), seats: &'a [Arc<ScriptedBackend>; 2]) -> Cast<'a> {
    Cast {
        executors: vec![maker],
        seats: vec![vec![(&seats[0], "acme")], vec![(&seats[1], "zenith")]],
        ..Cast::default()
    }
}

/// The gate alone, on work that was prepared. `with_older_trees`: else every tree that a probe runs on is the work itself.
async fn gate(world: &World, files: Files, script: Reviewer, with_older_trees: bool) -> StepReview {
    let seats = reviewers(script);
    let router = cast((&seats[0], "acme"), &seats).router();
    let commit = world.commit(&files);
    let draft = json!({
        "claims": [
            { "text": "Both modules use one function, which is in pricing/amounts.py." },
            { "text": "All tests pass." },
        ],
        "files": files.map(|(path, _)| path),
        "action": "complete",
    });
    let draft: HandoffDraft = serde_json::from_value(draft).unwrap();
    let handoff = Handoff::accept(draft, &StepEvidence::new()).unwrap();
    let work = StepWork {
        commit: commit.clone(),
        handoffs: vec![(0, handoff)],
        evidence: StepEvidence::new(),
        is_complete: true,
    };
    let mut attempt = world.attempt(&router);
    if !with_older_trees {
        (attempt.place.task_base, attempt.place.step_base) = (commit.clone(), commit);
    }
    attempt.dispatch_review(&work).await.unwrap()
}

fn decision(review: &StepReview) -> ReviewDecision {
    match &review.outcome {
        ReviewOutcome::Settled(verdict) => verdict.decision(),
        other => panic!("{other:?}: {:?}", review.silent),
    }
}

#[tokio::test]
async fn who_only_runs_the_tests_ships_it() {
    let Some(world) = world() else { return };
    let review = gate(&world, PLANTED, by_tests, true).await;
    assert_eq!((decision(&review), review.votes.len()), (ReviewDecision::Advance, 2));
}

#[tokio::test]
async fn who_runs_the_same_input_on_the_older_trees_catches_it() {
    let Some(world) = world() else { return };
    let review = gate(&world, PLANTED, by_probe, true).await;
    assert_eq!((decision(&review), review.votes.len()), (ReviewDecision::Retry, 2));
}

#[tokio::test]
async fn without_the_older_trees_the_same_reviewer_ships_it() {
    let Some(world) = world() else { return };
    let review = gate(&world, PLANTED, by_probe, false).await;
    assert_eq!((decision(&review), review.votes.len()), (ReviewDecision::Advance, 2));
}

#[tokio::test]
async fn the_right_answer_passes_both() {
    let Some(world) = world() else { return };
    for script in [by_tests as Reviewer, by_probe] {
        let review = gate(&world, RIGHT, script, true).await;
        assert_eq!((decision(&review), review.votes.len()), (ReviewDecision::Advance, 2));
    }
}

/// Merges the two, and keeps what the brief says about negatives.
fn merge(request: &TurnRequest) -> Vec<Act> {
    let files = if request.prompt_text().contains("keeps negative balances") { RIGHT } else { PLANTED };
    let mut acts: Vec<Act> = vec![call("read_file", json!({ "path": "pricing/discounts.py" }))];
    // What is there is read before it is written over.
    for (path, content) in files {
        acts.push(call("read_file", json!({ "path": path })));
        acts.push(Act::then(move |answers| {
            let hash = answers.last().unwrap().split_once("hash ").map(|(_, after)| after[..16].to_owned());
            match hash {
                Some(hash) => vec![call(
                    "write_file",
                    json!({ "path": path, "content": content, "expected_hash": hash }),
                )],
                None => vec![write(path, content)],
            }
        }));
    }
    acts.push(call("run_tests", json!({})));
    acts.push(Act::then(|answers| {
        let (id, said) = answers.last().unwrap().split_once(": ").expect("an id");
        assert!(said.starts_with("passed"), "{answers:?}");
        let claim = json!({ "text": "Both modules use one function, and all tests pass.", "evidence": [id] });
        vec![call("submit_handoff", json!({ "claims": [claim], "action": "step_done" }))]
    }));
    acts
}

fn holds(world: &World, record: &StepRecord) -> bool {
    let folder = world.root.join("held-out");
    world.tree.restore(record.work.as_ref().unwrap(), &folder, &[]).unwrap();
    Command::new("python3").args(["-c", HELD_OUT]).current_dir(&folder).status().unwrap().success()
}

#[tokio::test]
async fn the_reflector_re_briefs_another_vendor_does_it_again_and_what_was_held_out_holds() {
    let Some(mut world) = world() else { return };
    let seats = reviewers(by_probe);
    let clear = "refunds keeps negative balances: only a discounted price has a floor.";
    let re_brief = json!({ "re_brief": { "amendment": { "clarifications": [clear] } } });
    let thinker = agent("thinker", vec![vec![call("submit_reflection", re_brief)]]);
    let maker = agent_by("maker", merge);
    let mut first_cast = cast((&maker, "acme"), &seats);
    first_cast.reflector = Some((&thinker, "third"));
    let router = first_cast.router();
    let first = world.attempt(&router).run().await.unwrap();
    assert_eq!(first.end, StepEnd::Retried { max_retries: 2 }, "{:?}", maker.answered());
    assert!(!holds(&world, &first), "the trap is none");

    let Some(Reflection::ReBrief { amendment }) = &first.reflection else { panic!("{first:?}") };
    world.brief = world.brief.amended(amendment, &world.types, &world.root.join("project")).unwrap();
    let other = agent_by("other", merge);
    let router = cast((&other, "zenith"), &seats).router();
    let second = world.attempt_after(&router, &first).run().await.unwrap();
    assert_eq!(second.end, StepEnd::Advanced, "{:?}", (other.answered(), seats[0].answered()));
    assert_eq!(second.units[0].vendor.as_ref().unwrap().as_str(), "zenith");
    assert!(holds(&world, &second));
}
