//! Probes on three trees: what they observe, and what they may not do.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, time::UNIX_EPOCH};

use ProbeSide::{Now, StepBase, TaskBase};
use nexus_core::CancelToken;
use nexus_tasks::{
    CheckError, Checks, EvidenceId, ProbeDraft, ProbeRecord, ProbeSide, ProbeSides, ProgramExit, SideOutcome,
    shown_probe,
};
use nexus_trees::CommitIntent;

use super::kit::{Kit, has_all, has_python, probe, scratch_folders, settings, words};

async fn run(checks: &Checks, probe: ProbeDraft, sides: &ProbeSides) -> ProbeRecord {
    checks.run_probe(probe, sides, &CancelToken::new()).await.unwrap()
}

fn outcome(record: &ProbeRecord, side: ProbeSide, input: usize) -> &SideOutcome {
    &record.answer(side).unwrap().outcomes[input]
}

fn stdout(record: &ProbeRecord, side: ProbeSide, input: usize) -> &str {
    match outcome(record, side, input) {
        SideOutcome::Ran { output, .. } => &output.stdout.head,
        other => panic!("{side}: {other:?}"),
    }
}

fn shown(record: &ProbeRecord) -> String {
    shown_probe(&EvidenceId::probe(record.number), record)
}

/// Two functions of one name: one floors negatives, one must not.
fn normalize(second: &str) -> String {
    format!(
        "class Price:\n    def _normalize(self, n):\n        return max(0, n)\n\nclass Delta:\n    def _normalize(self, n):\n        return {second}\n"
    )
}

#[tokio::test]
async fn what_a_green_suite_skips_is_seen_to_differ_from_the_base() {
    if !has_all().await || !has_python() {
        return;
    }
    let test = "import unittest, amounts\nclass T(unittest.TestCase):\n    def test_positive(self):\n        self.assertEqual(amounts.Delta()._normalize(3), 3)\n";
    let kit = Kit::new(&[("amounts.py", &normalize("n")), ("test_amounts.py", test)]);
    let now = kit.change(&[("amounts.py", Some(&normalize("max(0, n)")))]);
    let checks = kit.checks(&settings(&["python3", "-m", "unittest"]));
    assert!(checks.run_tests(&now, &CancelToken::new()).await.unwrap().run.is_green());
    let script = "import sys, amounts\nfor line in sys.stdin:\n    n = int(line)\n    print(n, amounts.Price()._normalize(n), amounts.Delta()._normalize(n))\n";
    let mut draft = probe(&[("probe.py", script)], &["python3", "probe.py"]);
    draft.inputs = words(&["3\n0\n", "3\n-3\n"]);
    let record = run(&checks, draft.clone(), &kit.sides(&kit.base(), &now)).await;
    assert_eq!(
        (stdout(&record, TaskBase, 1), stdout(&record, Now, 1)),
        ("3 3 3\n-3 0 -3\n", "3 3 3\n-3 0 0\n")
    );
    assert_eq!((stdout(&record, TaskBase, 0), stdout(&record, Now, 0)), ("3 3 3\n0 0 0\n", "3 3 3\n0 0 0\n"));
    let told: Vec<_> =
        record.differs.iter().map(|one| (one.older, one.newer, one.input, one.stdout_line)).collect();
    assert_eq!(told, [(TaskBase, Now, 1, Some(2)), (StepBase, Now, 1, Some(2))]);
    assert!(
        record.differ(TaskBase, Now) && record.differ(Now, StepBase) && !record.differ(TaskBase, StepBase)
    );
    let text = shown(&record);
    assert!(text.starts_with("probe-1\ndiffers: task_base/now, step_base/now\ntask_base/now with input 1: standard output differs from line 2 on\n"), "{text}");
    assert!(
        text.contains("> -3 0 -3\n")
            && text.contains("> -3 0 0\n")
            && text.contains("step_base: the same files as task_base\n"),
        "{text}"
    );

    // The right answer: nothing differs.
    let right = kit.change(&[("amounts.py", Some(&normalize("0 + n")))]);
    let record =
        checks.run_probe_again(1, &kit.sides(&kit.base(), &right), &CancelToken::new()).await.unwrap();
    assert_eq!((record.number, record.again_of, &record.probe), (2, Some(1), &draft));
    assert!(
        record.differs.is_empty() && shown(&record).starts_with("probe-2\nagain: probe-1\ndiffers: none\n"),
        "{record:?}"
    );
    assert_eq!(kit.store().read(1).unwrap().number, 1);
}

#[tokio::test]
async fn three_trees_are_three_answers_and_equal_ones_are_run_once() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("a", "1\n")]);
    let (second, third) = (kit.change(&[("a", Some("2\n"))]), kit.change(&[("a", Some("3\n"))]));
    let checks = kit.checks(&settings(&[]));
    let record = run(&checks, probe(&[], &["cat", "a"]), &kit.sides(&second, &third)).await;
    let all: Vec<&str> = ProbeSide::ALL.iter().map(|side| stdout(&record, *side, 0)).collect();
    assert_eq!(all, ["1\n", "2\n", "3\n"]);
    assert_eq!(record.differs.len(), 3);
    assert!(record.answers.iter().all(|answer| answer.same_files_as.is_none()));
    // A step that comes back to what was there before.
    let back = run(&checks, probe(&[], &["cat", "a"]), &kit.sides(&second, &kit.base())).await;
    let same: Vec<_> = back.answers.iter().map(|answer| answer.same_files_as).collect();
    assert_eq!(same, [None, None, Some(TaskBase)]);
    assert!(back.differ(TaskBase, StepBase) && back.differ(StepBase, Now) && !back.differ(TaskBase, Now));
    let unknown: nexus_trees::CommitId = "1".repeat(40).parse().unwrap();
    let error =
        checks.run_probe(probe(&[], &["true"]), &kit.sides(&second, &unknown), &CancelToken::new()).await;
    assert!(matches!(error, Err(CheckError::Tree(_))), "{error:?}");
}

#[tokio::test]
async fn what_changes_from_run_to_run_is_unstable_and_not_compared() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("say", "#!/bin/sh\necho same\n")]);
    let now = kit.change(&[("say", Some("#!/bin/sh\ncat /proc/sys/kernel/random/uuid\n"))]);
    let checks = kit.checks(&settings(&[]));
    let record = run(&checks, probe(&[], &["./say"]), &kit.sides(&kit.base(), &now)).await;
    assert_eq!(stdout(&record, TaskBase, 0), "same\n");
    let SideOutcome::Unstable { first, second } = outcome(&record, Now, 0) else { panic!("{record:?}") };
    assert_ne!(first.output, second.output);
    assert_eq!(record.differs, []);
    let text = shown(&record);
    assert!(text.contains("differs: none\nnot compared, for at least one input: now\n"), "{text}");
    assert!(
        text.contains("now: unstable: two runs had different results\nnow, first run: exit code 0\n"),
        "{text}"
    );
    // An exit code alone, and standard error alone.
    let record =
        run(&checks, probe(&[], &["sh", "-c", "exit $(grep -c uuid say)"]), &kit.sides(&kit.base(), &now))
            .await;
    assert_eq!((record.differs.len(), record.differs[0].stdout_line), (2, None));
    let record =
        run(&checks, probe(&[], &["sh", "-c", "grep uuid say >&2; :"]), &kit.sides(&kit.base(), &now)).await;
    assert_eq!((record.differs.len(), record.differs[0].stdout_line), (2, None));
}

#[tokio::test]
async fn what_is_missing_on_one_side_did_not_start_there_and_what_fails_ran() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("lib.sh", "value=1\n"), ("main.py", "print(1)\n")]);
    let now = kit.change(&[
        ("new.sh", Some("#!/bin/sh\necho new\n")),
        ("pkg/added.py", Some("def f():\n    return 1\n")),
        ("lib.sh", Some("value=2\n")),
    ]);
    let checks = kit.checks(&settings(&[]));
    let sides = kit.sides(&kit.base(), &now);
    let missing = |record: &ProbeRecord, side| match outcome(record, side, 0) {
        SideOutcome::DidNotStart { missing } => missing.clone(),
        other => panic!("{side}: {other:?}"),
    };
    for argv in [&["./new.sh"][..], &["sh", "new.sh"]] {
        let record = run(&checks, probe(&[], argv), &sides).await;
        assert!(missing(&record, TaskBase).contains("new.sh"), "{argv:?}: {}", missing(&record, TaskBase));
        assert_eq!(stdout(&record, Now, 0), "new\n");
        assert_eq!(record.differs, []);
        assert!(shown(&record).contains("not compared, for at least one input: task_base, step_base\n"));
    }
    if has_python() {
        let script = "from pkg.added import f\nprint(f())\n";
        let record = run(&checks, probe(&[("p.py", script)], &["python3", "p.py"]), &sides).await;
        assert_eq!((missing(&record, TaskBase).as_str(), stdout(&record, Now, 0)), ("the module pkg", "1\n"));
        // A module that no tree has is missing on every side.
        let record =
            run(&checks, probe(&[("p.py", "import nosuchmodule\n")], &["python3", "p.py"]), &sides).await;
        for side in ProbeSide::ALL {
            assert!(missing(&record, side).contains("nosuchmodule"), "{record:?}");
        }
    }
    for argv in [&["nosuchtool"][..], &["sh", "-c", "nosuchtool"], &["env", "nosuchtool"]] {
        let record = run(&checks, probe(&[], argv), &sides).await;
        for side in ProbeSide::ALL {
            assert!(missing(&record, side).contains("nosuchtool"), "{record:?}");
        }
    }
    // A program that fails on one side alone ran, whatever it says: its words take nothing out of the comparison.
    for said in [
        "echo 'sh: 1: tool: not found' >&2; exit 127",
        "echo \"ModuleNotFoundError: No module named 'tool'\" >&2; exit 1",
    ] {
        let script = format!(". ./lib.sh; [ $value = 1 ] || {{ {said}; }}; exit 0");
        let record = run(&checks, probe(&[], &["sh", "-c", &script]), &sides).await;
        assert!(
            matches!(outcome(&record, Now, 0), SideOutcome::Ran { exit: ProgramExit::Code(1 | 127), .. }),
            "{record:?}"
        );
        assert!(record.differ(TaskBase, Now));
    }
}

#[tokio::test]
async fn a_probe_that_does_not_end_or_writes_too_much_is_ended() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("slow", "#!/bin/sh\necho quick\n")]);
    let slow = kit.change(&[("slow", Some("#!/bin/sh\necho begun\nsleep 1000\n"))]);
    let flood = kit.change(&[("slow", Some("#!/bin/sh\nyes\n"))]);
    let mut settings = settings(&[]);
    // What ends by itself ends within this time on any machine.
    settings.sandbox.seconds = 10;
    let checks = kit.checks(&settings);
    let record = run(&checks, probe(&[], &["./slow"]), &kit.sides(&flood, &slow)).await;
    assert_eq!(stdout(&record, TaskBase, 0), "quick\n");
    let SideOutcome::ReachedLimit { limit, output } = outcome(&record, StepBase, 0) else {
        panic!("{record:?}")
    };
    assert!(
        limit == "output"
            && output.stdout.head.starts_with("y\ny\n")
            && output.stdout.omitted_bytes > 900 << 10
    );
    let SideOutcome::TimedOut { output } = outcome(&record, Now, 0) else { panic!("{record:?}") };
    assert_eq!(output.stdout.head, "begun\n");
    assert_eq!(record.differs, []);
    assert!(shown(&record).len() < 24 << 10);
    assert_eq!(kit.store().read(record.number).unwrap(), record);
    // All inputs together have their time, too: the last ones are not begun.
    settings.sandbox.seconds = 1;
    let checks = kit.checks(&settings);
    let mut many = probe(&[], &["./slow"]);
    many.inputs = vec!["x".to_owned(); 12];
    let record = run(&checks, many, &kit.sides(&slow, &slow)).await;
    assert!((0..12).all(|input| matches!(outcome(&record, Now, input), SideOutcome::TimedOut { .. })));
    let SideOutcome::TimedOut { output } = outcome(&record, Now, 11) else { panic!("{record:?}") };
    assert_eq!(output.stdout.head, "");
}

#[tokio::test]
async fn a_file_that_differs_late_in_a_long_output_is_seen() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("n", "70000\n")]);
    let now = kit.change(&[("n", Some("70001\n"))]);
    let script = "seq 60000; cat n; seq 60000";
    let record =
        run(&kit.checks(&settings(&[])), probe(&[], &["sh", "-c", script]), &kit.sides(&kit.base(), &now))
            .await;
    assert_eq!(record.differs[0].stdout_line, Some(60_001));
    let SideOutcome::Ran { output, .. } = outcome(&record, Now, 0) else { panic!("{record:?}") };
    assert!(
        output.stdout.head.len() + output.stdout.tail.len() <= 64 << 10 && output.stdout.omitted_bytes > 0
    );
}

#[tokio::test]
async fn a_probe_writes_into_copies_that_nobody_sees_again() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("state", "clean\n"), (".gitignore", "cache\n")]);
    let mut settings = settings(&["cat", "state"]);
    settings.sandbox.setup = vec![words(&["sh", "-c", "echo prepared > cache"])];
    let checks = kit.checks(&settings);
    let script = "cat state cache p.sh; echo dirty > state; echo dirty > cache; echo dirty > p.sh; touch ../left /tmp/left $HOME/left; ls /tmp/left";
    let mut draft = probe(&[("p.sh", "echo\n")], &["sh", "-c", script]);
    draft.inputs = words(&["a", "b"]);
    for _ in 0..2 {
        let record = run(&checks, draft.clone(), &kit.sides(&kit.base(), &kit.base())).await;
        for input in 0..2 {
            assert_eq!(stdout(&record, Now, input), "clean\nprepared\necho\n/tmp/left\n");
        }
    }
    let tests = checks.run_tests(&kit.base(), &CancelToken::new()).await.unwrap();
    assert_eq!(tests.run.output.stdout.head, "clean\n");
    crate::task_checks::kit::until("copies are gone", || scratch_folders(&kit) == 0).await;
    assert_eq!(fs::read_dir(kit.project()).unwrap().count(), 3, "the person's project is as it was");
}

#[tokio::test]
async fn no_file_of_a_probe_overwrites_anything_or_leaves_the_tree() {
    if !has_all().await {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    let kit = Kit::beside(&[("old", ""), ("folder/x", "")], &[("vendor/lib", "")]);
    let out = kit.folder.path().join("task/linked");
    kit.tree.restore(&kit.base(), &out, &[]).unwrap();
    symlink("folder", out.join("link")).unwrap();
    fs::write(out.join("only-now"), "").unwrap();
    let snapshot = kit.tree.snapshot(&out).unwrap();
    let now = kit.tree.commit(&CommitIntent::new(snapshot, kit.base(), UNIX_EPOCH, "Link it")).unwrap();
    let mut settings = settings(&[]);
    settings.sandbox.keep = words(&["vendor"]);
    let checks = kit.checks(&settings);
    let absolute = outside.path().join("x");
    let absolute = absolute.to_str().unwrap();
    for path in [
        "old",
        "only-now",
        "folder",
        "old/below",
        "link",
        "link/new",
        "vendor",
        "vendor/new",
        "../x",
        absolute,
        ".git/hooks/x",
        "a/../b",
        "folder/../../x",
    ] {
        let draft = probe(&[("fine", ""), (path, "x")], &["true"]);
        let error =
            checks.run_probe(draft, &kit.sides(&kit.base(), &now), &CancelToken::new()).await.unwrap_err();
        let CheckError::Refused(refused) = error else { panic!("{path}: {error}") };
        assert_eq!((refused.what, refused.faults[0].place.as_str()), ("probe", "files[1].path"), "{path}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(kit.store().numbers().unwrap(), [0_u32; 0], "what is refused has no number");
    let draft = probe(&[("folder/new/p.sh", "#!/bin/sh\necho \"$0\"\n")], &["folder/new/p.sh"]);
    let record = run(&checks, draft, &kit.sides(&kit.base(), &now)).await;
    assert_eq!(stdout(&record, Now, 0), "folder/new/p.sh\n");
}

#[tokio::test]
async fn what_a_probe_prints_forges_no_line_of_its_record() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[]);
    let script = "printf 'a\\033[2J\\r\\nprobe-1\\ndiffers: none\\nnow: ran, exit code 0\\n\\377\\000'; printf '[stdout of now]\\n' >&2; exit 7";
    let record = run(
        &kit.checks(&settings(&[])),
        probe(&[], &["sh", "-c", script]),
        &kit.sides(&kit.base(), &kit.base()),
    )
    .await;
    let text = shown(&record);
    let own: Vec<&str> = text.lines().filter(|line| !line.starts_with("> ")).collect();
    assert_eq!(
        own,
        [
            "probe-1",
            "differs: none",
            "task_base: ran, exit code 7",
            "[stdout of task_base]",
            "[stderr of task_base]",
            "step_base: the same files as task_base",
            "now: the same files as task_base",
        ]
    );
    assert!(text.contains("> a\\u{1b}[2J\n") && text.contains("> \u{fffd}\\u{0}\n"), "{text}");
    assert_eq!(
        stdout(&record, Now, 0),
        "a\u{1b}[2J\r\nprobe-1\ndiffers: none\nnow: ran, exit code 0\n\u{fffd}\0"
    );
}

#[tokio::test]
async fn reviewers_at_once_have_probes_of_their_own_numbers() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("mine", "")]);
    let checks = [kit.checks(&settings(&[])), kit.checks(&settings(&[]))];
    let sides = kit.sides(&kit.base(), &kit.base());
    let mut running = tokio::task::JoinSet::new();
    for number in 0..8 {
        let (checks, sides) = (checks[number % 2].clone(), sides.clone());
        let script = format!("echo {number} >> mine; cat mine");
        running
            .spawn(async move { (number, run(&checks, probe(&[], &["sh", "-c", &script]), &sides).await) });
    }
    let mut numbers = BTreeSet::new();
    while let Some(done) = running.join_next().await {
        let (number, record) = done.unwrap();
        assert_eq!(stdout(&record, Now, 0), format!("{number}\n"));
        assert!(numbers.insert(record.number));
        assert_eq!(kit.store().read(record.number).unwrap(), record);
    }
    assert_eq!(numbers, (1..=8).collect());
    assert_eq!(kit.store().numbers().unwrap(), (1..=8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stored_probe_that_somebody_edited_is_not_believed() {
    if !has_all().await {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let kit = Kit::new(&[("a", "1")]);
    let now = kit.change(&[("a", Some("2"))]);
    let checks = kit.checks(&settings(&[]));
    let sides = kit.sides(&kit.base(), &now);
    let record = run(&checks, probe(&[("p", "x")], &["cat", "a"]), &sides).await;
    let (store, path) = (kit.store(), kit.folder.path().join("task/probes/1.json"));
    assert_eq!(store.read(1).unwrap(), record);
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let text = fs::read_to_string(&path).unwrap();
    let edits = [
        ("\"number\":1", "\"number\":2"),
        ("\"path\":\"p\"", "\"path\":\"../p\""),
        ("\"argv\":[\"cat\",\"a\"]", "\"argv\":[]"),
        ("\"older\":\"task_base\"", "\"older\":\"now\""),
        ("\"input\":0", "\"input\":7"),
        ("\"side\":\"step_base\"", "\"side\":\"task_base\""),
        (
            "\"outcome\":\"ran\",\"exit\":{\"code\":0}",
            "\"outcome\":\"ran\",\"exit\":{\"code\":0},\"extra\":1",
        ),
        ("\"same_files_as\":\"task_base\",", "\"same_files_as\":\"now\","),
        ("\"task_base\":\"", "\"task_base\":\"../../"),
        ("{\"number\"", "{\"again_of\":1,\"number\""),
    ];
    for (found, forged) in edits {
        assert!(text.contains(found), "{found}: {text}");
        fs::write(&path, text.replacen(found, forged, 1)).unwrap();
        assert!(matches!(store.read(1), Err(CheckError::Malformed { .. })), "{forged}");
        let again = checks.run_probe_again(1, &sides, &CancelToken::new()).await;
        assert!(matches!(again, Err(CheckError::Malformed { .. })), "{forged}");
    }
    for number in [0, 2, u32::MAX] {
        assert!(
            matches!(store.read(number), Err(CheckError::NoSuchProbe { number: found }) if found == number)
        );
    }
    // Names that are none, a link and a folder in the place of records.
    fs::write(&path, &text).unwrap();
    let folder = path.parent().unwrap();
    for name in ["01.json", "x.json", "4294967296.json", "-1.json", "7.txt", ".9.new"] {
        fs::write(folder.join(name), "").unwrap();
    }
    symlink("1.json", folder.join("3.json")).unwrap();
    fs::create_dir(folder.join("5.json")).unwrap();
    assert_eq!(store.numbers().unwrap(), [1, 3, 5]);
    for number in [3, 5] {
        assert!(matches!(store.read(number), Err(CheckError::Malformed { .. })));
    }
    let next = run(&checks, probe(&[], &["true"]), &sides).await;
    assert_eq!(next.number, 6);
    assert!(!folder.join(".9.new").exists(), "what was left half-written goes");
}
