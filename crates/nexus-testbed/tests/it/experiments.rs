//! Experiments: in turns, kept run by run, gone on with, and refused where they are others.
#![cfg(target_os = "linux")]

use std::{fs, path::Path};

use nexus_core::{BuildContext, CancelToken, RecordLog, Registry};
use nexus_testbed::{
    Answer, Arm, ArmContext, Experiment, ExperimentPlan, ExperimentResults, Outcome, RunKey, RunMode, Script,
    TestbedError, TurnBounds,
};
use nexus_testkit::child_test;

use crate::support::{built_in, can_run, edit};

fn plan(traps: &[&str], arms: &[Script], repeats: u32) -> ExperimentPlan {
    ExperimentPlan {
        mode: RunMode::Review,
        repeats,
        answers: Answer::ALL.to_vec(),
        arms: arms.iter().map(|script| Arm::scripted(*script)).collect(),
        traps: traps.iter().map(|name| built_in(name)).collect(),
    }
}

fn context(root: &Path) -> ArmContext {
    ArmContext { registry: Registry::new(), build: BuildContext::in_home(root.join("home")), spending: None }
}

fn refused(folder: &Path, plan: ExperimentPlan) -> String {
    Experiment::open(folder, plan).unwrap_err().to_string()
}

#[test]
fn arms_take_turns() {
    let plan = plan(&["bounds", "negatives"], &[Script::Anchored, Script::Probing], 2);
    let description = plan.description();
    let keys: Vec<RunKey> = (0..).map_while(|number| description.key(number)).collect();
    assert_eq!((keys.len(), description.runs()), (16, 16));
    for (number, pair) in keys.chunks(2).enumerate() {
        let [first, second] = pair else { panic!("{pair:?}") };
        assert_eq!((first.arm.as_str(), second.arm.as_str()), ("anchored", "probing"));
        assert_eq!((&first.trap, first.answer, first.repeat), (&second.trap, second.answer, second.repeat));
        assert_eq!(first.repeat as usize, number / 4 + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_experiment_that_is_cut_off_goes_on_where_it_was() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (context, cancel) = (context(&root), CancelToken::new());
    let open = || {
        Experiment::open(root.join("e"), plan(&["negatives"], &[Script::Anchored, Script::Probing], 1))
            .unwrap()
    };
    let mut experiment = open();
    assert_eq!(experiment.turns(&context).unwrap(), (TurnBounds { fewest: 8, most: 48 }, Vec::new()));
    let said = refused(&root.join("e"), plan(&["negatives"], &[Script::Anchored, Script::Probing], 1));
    assert!(said.ends_with("another process is working on it"), "{said}");
    let stop = cancel.clone();
    let ended = experiment.run(&context, &cancel, |run| {
        if run.key.number == 1 {
            stop.cancel();
        }
    });
    assert!(matches!(ended.await, Err(TestbedError::Cancelled)));
    drop(experiment);
    // What was being written when the power went.
    let runs = root.join("e/runs.jsonl");
    let kept = fs::read_to_string(&runs).unwrap();
    assert_eq!(kept.lines().count(), 2);
    fs::write(&runs, format!("{kept}{}", &kept[..kept.len() / 3])).unwrap();
    let mut experiment = open();
    assert_eq!(experiment.finished().len(), 2);
    assert_eq!(experiment.turns(&context).unwrap().0, TurnBounds { fewest: 4, most: 24 });
    experiment.run(&context, &CancelToken::new(), |_| ()).await.unwrap();
    drop(experiment);
    let results = ExperimentResults::read(&root.join("e")).unwrap();
    let outcomes: Vec<_> =
        results.runs.iter().map(|run| (run.key.arm.clone(), run.outcome().unwrap())).collect();
    let expected = [
        ("anchored", Outcome::ConfidentWrong),
        ("probing", Outcome::HonestEscalate),
        ("anchored", Outcome::Correct),
        ("probing", Outcome::Correct),
    ];
    assert_eq!(outcomes, expected.map(|(arm, outcome)| (arm.to_owned(), outcome)));
    assert!(fs::read_to_string(&runs).unwrap().starts_with(&kept));
    assert!(results.runs[1].probes.len() == 2 && results.runs[1].votes.len() == 2);
    assert!(!root.join("e/run").exists() && !root.join("e/scored").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_experiment_is_refused_with_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    drop(Experiment::open(root.join("e"), plan(&["bounds"], &[Script::Anchored], 1)).unwrap());
    let said = refused(&root.join("e"), plan(&["negatives"], &[Script::Anchored, Script::Wary], 2));
    for part in [
        "contains another experiment: ",
        "1 runs of each there, 2 here",
        "the arm wary is only here",
        "the trap bounds is only there",
        "the trap negatives is only here",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let mut same_name = plan(&["bounds"], &[Script::Anchored], 1);
    same_name.arms = vec![Arm::new("anchored", "groups: {}").unwrap()];
    assert!(refused(&root.join("e"), same_name).contains("the arm anchored is another one here"));

    fs::create_dir(root.join("full")).unwrap();
    fs::write(root.join("full/letter"), "dear").unwrap();
    let said = refused(&root.join("full"), plan(&["bounds"], &[Script::Anchored], 1));
    assert!(said.contains("is not empty, and contains no experiment"), "{said}");
    assert_eq!(fs::read_dir(root.join("full")).unwrap().count(), 1, "nothing is written there");
    for none in
        [plan(&[], &[Script::Anchored], 1), plan(&["bounds"], &[], 1), plan(&["bounds"], &[Script::Wary], 0)]
    {
        refused(&root.join("none"), none);
    }
    let twice = refused(&root.join("none"), plan(&["bounds"], &[Script::Wary, Script::Wary], 1));
    assert!(twice.contains("two of its arms have the name"), "{twice}");
    fs::write(root.join("e/experiment.json"), "{").unwrap();
    assert!(
        refused(&root.join("e"), plan(&["bounds"], &[Script::Anchored], 1))
            .contains("is not an experiment: ")
    );
    assert!(ExperimentResults::read(root).unwrap_err().to_string().contains("contains no experiment"));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_were_changed_are_refused_with_their_line() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut experiment = Experiment::open(root.join("e"), plan(&["bounds"], &[Script::Probing], 1)).unwrap();
    experiment.run(&context(&root), &CancelToken::new(), |_| ()).await.unwrap();
    drop(experiment);
    let runs = root.join("e/runs.jsonl");
    let good = fs::read_to_string(&runs).unwrap();
    for (old, new, said) in [
        ("\"arm\":\"probing\"", "\"arm\":\"other\"", "line 1 is a different run than expected"),
        ("\"number\":0", "\"number\":1", "line 1 is a different run"),
        ("\"ending\":\"refused\"", "\"ending\":\"perfect\"", "line 1 is not a run: "),
        ("{\"key\"", "{\"more\":1,\"key\"", "line 1 is not a run: "),
        // A verdict that no review could have given.
        ("\"alignment\":0.2", "\"alignment\":7.0", "line 1 is not a run: "),
    ] {
        fs::write(&runs, &good).unwrap();
        edit(&runs, old, new);
        let error = ExperimentResults::read(&root.join("e")).unwrap_err().to_string();
        assert!(error.contains(said), "{new}: {error}");
    }
    fs::write(&runs, format!("{good}{}\n", good.lines().next().unwrap())).unwrap();
    let error = ExperimentResults::read(&root.join("e")).unwrap_err().to_string();
    assert!(error.contains("line 3 is a different run than expected: no further run"), "{error}");
}

#[test]
fn links_and_pipes_in_place_of_the_files_of_an_experiment_are_neither_followed_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let victim = root.join("victim");
    let plan = || plan(&["bounds"], &[Script::Anchored], 1);
    let causes = |error: TestbedError| std::error::Error::source(&error).unwrap().to_string();
    for name in ["experiment.json.new", "experiment.json", "runs.jsonl"] {
        let place = root.join(format!("link-{name}"));
        drop((name == "runs.jsonl").then(|| Experiment::open(&place, plan()).unwrap()));
        fs::create_dir_all(&place).unwrap();
        let _ = fs::remove_file(place.join(name));
        fs::write(&victim, "dear").unwrap();
        std::os::unix::fs::symlink(&victim, place.join(name)).unwrap();
        let error = Experiment::open(&place, plan()).unwrap_err();
        if name == "experiment.json.new" {
            assert!(error.to_string().contains("is not empty, and contains no experiment"), "{error}");
        } else {
            assert_eq!(causes(error), "it is not a regular file");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "dear", "{name}");
    }
    for name in ["experiment.json", "runs.jsonl"] {
        let place = root.join(format!("pipe-{name}"));
        drop(Experiment::open(&place, plan()).unwrap());
        fs::remove_file(place.join(name)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(place.join(name)).status().unwrap();
        assert!(made.success());
        assert_eq!(causes(ExperimentResults::read(&place).unwrap_err()), "it is not a regular file");
        assert_eq!(causes(Experiment::open(&place, plan()).unwrap_err()), "it is not a regular file");
    }
}

/// Names the folder in a child that may not write much.
const ROLE: &str = "NEXUS_TEST_FULL_DISK";

/// A limit on the size of files stands for a full disk.
#[test]
fn a_turn_that_cannot_be_written_down_stops_the_experiment_and_is_no_result() {
    if !can_run() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let open =
        |root: &Path| Experiment::open(root.join("e"), plan(&["bounds"], &[Script::Probing], 1)).unwrap();
    if let Some(root) = std::env::var_os(ROLE) {
        let root = Path::new(&root);
        let mut experiment = open(root);
        let (context, cancel) = (context(root), CancelToken::new());
        let error = runtime.block_on(experiment.run(&context, &cancel, |_| ())).unwrap_err();
        assert!(matches!(error, TestbedError::Run { .. }), "{error:?}");
        assert!(error.to_string().contains("turns.jsonl"), "{error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (context, cancel) = (context(&root), CancelToken::new());
    let mut experiment = open(&root);
    let run = experiment.run(&context, &cancel, |_| cancel.cancel());
    assert!(matches!(runtime.block_on(run), Err(TestbedError::Cancelled)));
    drop(experiment);
    // Longer than any other file of a run, so that it alone meets the limit.
    let turns = root.join("e/turns.jsonl");
    let text = fs::read_to_string(&turns).unwrap();
    fs::write(&turns, text.repeat((4 << 20) / text.len() + 1)).unwrap();
    let mut launcher = std::process::Command::new("sh");
    launcher.args(["-c", "trap '' XFSZ; ulimit -S -f 4096; exec \"$0\" \"$@\""]);
    let test = a_turn_that_cannot_be_written_down_stops_the_experiment_and_is_no_result;
    let output = child_test::through(launcher, test).env(ROLE, &root).output().unwrap();
    child_test::assert_passed("the experiment", &output);
    assert_eq!(ExperimentResults::read(&root.join("e")).unwrap().runs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_arm_of_a_vendor_without_a_sandbox_does_not_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let yaml = "groups: { only: [there] }\ntypes: { reviewer: { tier: operations, phase: review, group: only } }\n\
                tasks: { defaults: { sandbox: { kind: none } } }\n";
    let mut plan = plan(&["bounds"], &[], 1);
    plan.arms = vec![Arm::new("single", yaml).unwrap()];
    let registry = Registry::new().with_absent("there", "not part of this build");
    let context = ArmContext { registry, build: BuildContext::in_home(root.join("home")), spending: None };
    let mut experiment = Experiment::open(root.join("e"), plan).unwrap();
    let (bounds, real) = experiment.turns(&context).unwrap();
    assert_eq!((bounds, real), (TurnBounds { fewest: 2, most: 12 }, vec!["single"]));
    let error = experiment.run(&context, &CancelToken::new(), |_| ()).await.unwrap_err().to_string();
    assert!(error.contains("the arm \"single\": its agents could reach the ground truth"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_turns_of_an_arm_count_every_backend_that_one_may_be_tried_on() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let yaml = "\
groups: { long: [one, two, three], short: [one] }
backends:
  one: { kind: scripted, script: anchored, vendor: first }
  two: { kind: scripted, script: anchored, vendor: first }
  three: { kind: scripted, script: anchored, vendor: second }
types:
  orchestrator: { tier: operations, phase: orchestrate, group: short }
  executor: { tier: execution, phase: implement, group: long }
  reviewer: { tier: operations, phase: review, panel: review }
panels: { review: [{ group: long }, { group: short }] }
tasks: { defaults: { max_review_retries: 0 } }
";
    // A review: 3 and 1 backends, each asked twice for up to 3 turns. A task: 3 turns of the frame, and 12 steps of 9 turns and a review.
    for (mode, bounds) in [
        (RunMode::Review, TurnBounds { fewest: 2, most: 24 }),
        (RunMode::Task, TurnBounds { fewest: 4, most: 3 + 12 * (9 + 24) }),
    ] {
        let mut plan = plan(&["bounds"], &[], 1);
        (plan.mode, plan.answers) = (mode, vec![Answer::Planted]);
        plan.arms = vec![Arm::new("chains", yaml).unwrap()];
        let place = root.join(format!("{mode:?}"));
        let experiment = Experiment::open(place, plan).unwrap();
        assert_eq!(experiment.turns(&context(&root)).unwrap(), (bounds, Vec::new()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_tasks_end_as_their_agents_anchor_or_probe() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let mut plan = plan(&["negatives"], &[Script::Anchored, Script::Probing, Script::Wary], 1);
    plan.mode = RunMode::Task;
    // Who does the work anchors, who looks at it probes, or refuses everything.
    let stubborn = |name: &str, reviewers: &str| {
        let yaml = "\
groups: { makers: [maker], first: [first-model], second: [second-model] }
backends:
  maker: { kind: scripted, script: MAKER, vendor: third }
  first-model: { kind: scripted, script: REVIEWER, vendor: first }
  second-model: { kind: scripted, script: REVIEWER, vendor: second }
types:
  orchestrator: { tier: operations, phase: orchestrate, group: makers }
  executor: { tier: execution, phase: implement, group: makers }
  reviewer: { tier: operations, phase: review, panel: review }
panels: { review: [{ group: first }, { group: second }] }
";
        let maker = if reviewers == "probing" { "anchored" } else { "wary" };
        Arm::new(name, yaml.replace("REVIEWER", reviewers).replace("MAKER", maker)).unwrap()
    };
    plan.arms = vec![
        Arm::scripted(Script::Anchored),
        Arm::scripted(Script::Probing),
        stubborn("stubborn", "probing"),
        stubborn("refusing", "wary"),
    ];
    let mut experiment = Experiment::open(root.join("e"), plan).unwrap();
    experiment.run(&context(&root), &CancelToken::new(), |_| ()).await.unwrap();
    let outcomes: Vec<_> = experiment.finished().iter().map(|run| (run.outcome(), run.invalid())).collect();
    let expected =
        [Outcome::ConfidentWrong, Outcome::Correct, Outcome::HonestEscalate, Outcome::FalseEscalate];
    assert_eq!(outcomes, expected.map(|outcome| (Some(outcome), None)));
    let turns: Vec<u32> = experiment.finished().iter().map(|run| run.spent.turns).collect();
    assert_eq!(turns[0], 4, "a frame, a unit and two reviewers: {turns:?}");
    assert!(turns[1] == 7 && turns[2] == 10, "{turns:?}");
    let kept = RecordLog::read(root.join("e/turns.jsonl")).unwrap().turns;
    assert_eq!(kept.len(), turns.iter().sum::<u32>() as usize, "the turns of all whole tasks are kept");
    assert!(kept.iter().all(|turn| turn.outcome.is_some()));
}

#[test]
fn arms_have_names_that_can_be_shown() {
    for name in ["", " ", "a\u{1b}[2J", "<b>", "\u{202e}x", &"x".repeat(65)] {
        assert!(Arm::new(name, "").is_err(), "{name:?}");
    }
    let context = context(Path::new("/nonexistent"));
    let trap = built_in("bounds");
    for yaml in ["", "groups: [", "types: { reviewer: { tier: x } }"] {
        let error = Arm::new("odd", yaml).unwrap().router(&trap, &context).unwrap_err().to_string();
        assert!(error.starts_with("the arm \"odd\": "), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arms_of_one_reviewer_and_of_one_vendor_are_measured() {
    if !can_run() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let arm = |name: &str, script: &str, reviewer: &str| {
        let yaml = "\
groups: { one: [one-model], other: [other-model] }
backends:
  one-model: { kind: scripted, script: SCRIPT, vendor: same }
  other-model: { kind: scripted, script: SCRIPT, vendor: same }
types: { reviewer: { tier: operations, phase: review, REVIEWER } }
panels: { review: [{ group: one }, { group: other }] }
";
        Arm::new(name, yaml.replace("SCRIPT", script).replace("REVIEWER", reviewer)).unwrap()
    };
    let mut plan = plan(&["checks"], &[], 1);
    plan.arms = vec![
        arm("single anchored", "anchored", "group: one"),
        arm("single probing", "probing", "group: one"),
        arm("pair anchored", "anchored", "panel: review"),
        arm("pair probing", "probing", "panel: review"),
    ];
    let mut experiment = Experiment::open(root.join("e"), plan).unwrap();
    experiment.run(&context(&root), &CancelToken::new(), |_| ()).await.unwrap();
    let outcomes: Vec<_> = experiment.finished().iter().map(|run| (run.outcome(), run.invalid())).collect();
    let wrong = [Outcome::ConfidentWrong, Outcome::HonestEscalate];
    let expected = wrong.iter().chain(&wrong).chain(&[Outcome::Correct; 4]);
    assert_eq!(outcomes, expected.map(|outcome| (Some(*outcome), None)).collect::<Vec<_>>());
}
