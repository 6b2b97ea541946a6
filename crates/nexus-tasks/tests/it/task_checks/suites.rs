//! The test command, on the base and on what agents made of it.

use std::{env, fs, os::unix::fs::symlink, path::PathBuf, process::Command, time::Duration};

use nexus_core::CancelToken;
use nexus_tasks::{
    CheckError, EvidenceId, ProgramExit, SuiteEnd, SuiteRun, TestFileChangeKind, TestFileKind,
    shown_baseline, shown_test_run,
};

use super::kit::{
    Kit, alive_with, files_below, has_all, has_git, has_python, probe, scratch_folders, settings,
    unsandboxed, until, words, write,
};

fn stdout(run: &SuiteRun) -> &str {
    assert_eq!(run.output.stdout.omitted_bytes, 0);
    &run.output.stdout.head
}

const PYTHON: [&str; 5] = ["python3", "-m", "unittest", "discover", "-s"];

#[tokio::test]
async fn the_base_is_green_red_cannot_start_or_does_not_end() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[
        ("ok.sh", "#!/bin/sh\necho fine\n"),
        ("odd", "#!/no/such/interpreter\n"),
        ("plain", "echo\n"),
    ]);
    let green = kit.baseline(&["./ok.sh"]).await;
    assert_eq!((&green.end, stdout(&green)), (&SuiteEnd::Passed, "fine\n"));
    assert!(green.is_green() && green.seconds > 0.0);
    let red = kit.baseline(&["sh", "-c", "echo one test fails; echo why >&2; exit 3"]).await;
    assert_eq!(red.end, SuiteEnd::Failed { exit: ProgramExit::Code(3) });
    assert_eq!((stdout(&red), red.output.stderr.head.as_str()), ("one test fails\n", "why\n"));
    let killed = kit.baseline(&["sh", "-c", "kill -SEGV $$"]).await;
    assert!(matches!(killed.end, SuiteEnd::Failed { .. }), "{killed:?}");
    for (command, names) in [
        (&["nosuchtool", "test"][..], "nosuchtool"),
        (&["sh", "-c", "echo on the way; nosuchtool"], "nosuchtool"),
        (&["./odd"], "./odd"),
        (&["./plain"], "./plain"),
        (&["./absent"], "./absent"),
        (&["env", "nosuchtool"], "nosuchtool"),
    ] {
        let SuiteEnd::DidNotStart { missing } = kit.baseline(command).await.end else {
            panic!("{command:?} started")
        };
        assert!(missing.contains(names), "{command:?}: {missing}");
    }
    if has_python() {
        let lacks = kit.baseline(&["python3", "-m", "nosuchmodule"]).await;
        let SuiteEnd::DidNotStart { missing } = lacks.end else { panic!("{lacks:?}") };
        assert!(missing.contains("No module named nosuchmodule"), "{missing}");
    }
    let mut slow = settings(&["sh", "-c", "echo begun; sleep 1000"]);
    slow.sandbox.seconds = 1;
    let slow = kit.checks(&slow).baseline(&CancelToken::new()).await.unwrap().unwrap();
    assert_eq!((&slow.run.end, stdout(&slow.run)), (&SuiteEnd::TimedOut, "begun\n"));
    assert!(shown_baseline(&slow).starts_with("The tests on the base: timed out after "));
}

#[tokio::test]
async fn a_flood_of_output_ends_the_tests_and_its_beginning_and_end_are_kept() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[]);
    let flood = kit.baseline(&["sh", "-c", "echo first; yes \u{e9}"]).await;
    assert_eq!(flood.end, SuiteEnd::ReachedLimit { limit: "output".to_owned() });
    let kept = &flood.output.stdout;
    // The flood ends wherever it was when the program was ended.
    let tail = kept.tail.trim_end_matches('\u{fffd}');
    assert!(
        kept.head.starts_with("first\n\u{e9}\n") && tail.ends_with(['\n', '\u{e9}']),
        "{:?} {:?}",
        kept.head.chars().take(20).collect::<String>(),
        kept.tail.chars().rev().take(20).collect::<String>()
    );
    // A character that the bound cuts is shown as a longer one.
    let shown_bytes = kept.head.len() + tail.len();
    assert!(
        kept.omitted_bytes > 200 << 20 && shown_bytes <= 256 << 10,
        "{} {shown_bytes}",
        kept.omitted_bytes
    );
    assert!(!kept.head.contains('\u{fffd}') && !tail.contains('\u{fffd}'), "a character is cut in two");
    let long = kit.baseline(&["sh", "-c", "seq 200000; echo last >&2"]).await;
    assert_eq!(long.end, SuiteEnd::Passed);
    assert!(
        long.output.stdout.head.starts_with("1\n2\n")
            && long.output.stdout.tail.ends_with("199999\n200000\n")
    );
    let run = nexus_tasks::TestRun {
        commit: kit.base(),
        run: long,
        changed: Vec::new(),
        may_be_loaded: Vec::new(),
        loads_unknown: false,
        base_tests: None,
    };
    let shown = shown_test_run(&EvidenceId::test(4), &run);
    assert!(
        shown.starts_with("test-4: passed.\nTest and build files are unchanged since the task's base.\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\n> 1\n> 2\n") && shown.contains("> 200000\n") && shown.contains("> last\n"),
        "{shown}"
    );
    assert!(shown.contains(" bytes between are not shown]\n") && shown.len() < 16 << 10, "{}", shown.len());
}

#[tokio::test]
async fn a_task_without_a_test_command_has_no_baseline() {
    if !has_git() {
        return;
    }
    let kit = Kit::new(&[]);
    let checks = kit.checks(&settings(&[]));
    assert_eq!(checks.baseline(&CancelToken::new()).await.unwrap(), None);
    let error = checks.run_tests(&kit.base(), &CancelToken::new()).await.unwrap_err();
    assert!(matches!(error, CheckError::NoTestCommand), "{error}");
}

#[tokio::test]
async fn tests_that_were_bent_are_named_and_the_base_s_tests_run_beside() {
    if !has_all().await || !has_python() {
        return;
    }
    let test = |expected: u32| {
        format!(
            "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), {expected})\n"
        )
    };
    let kit = Kit::new(&[
        ("calc.py", "def add(a, b):\n    return a + b\n"),
        ("tests/__init__.py", ""),
        ("tests/test_calc.py", &test(3)),
        ("setup.cfg", "[metadata]\n"),
        ("README.md", "read\n"),
    ]);
    let command: Vec<&str> = PYTHON.into_iter().chain(["tests", "-t", "."]).collect();
    let checks = kit.checks(&settings(&command));
    let cancel = CancelToken::new();
    assert!(checks.baseline(&cancel).await.unwrap().unwrap().run.is_green());

    // Work that leaves the tests alone.
    let honest =
        kit.change(&[("calc.py", Some("def add(a, b):\n    return b + a\n")), ("README.md", Some("more\n"))]);
    let run = checks.run_tests(&honest, &cancel).await.unwrap();
    assert!(run.run.is_green(), "{run:?}");
    assert_eq!((&run.commit, run.changed.len(), &run.base_tests), (&honest, 0, &None));

    // Work that breaks the program and bends its tests to that.
    let bent = kit.change(&[
        ("calc.py", Some("def add(a, b):\n    return a - b\n")),
        ("tests/test_calc.py", Some(&test(3).replace("3)", "-1)"))),
        (
            "tests/test_more.py",
            Some("import unittest\nclass M(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"),
        ),
        ("setup.cfg", None),
        ("README.md", Some("more\n")),
    ]);
    let run = checks.run_tests(&bent, &cancel).await.unwrap();
    assert!(run.run.is_green(), "{run:?}");
    let changed: Vec<_> =
        run.changed.iter().map(|change| (change.path.as_str(), change.kind, change.change)).collect();
    assert_eq!(
        changed,
        [
            ("setup.cfg", TestFileKind::Build, TestFileChangeKind::Removed),
            ("tests/test_calc.py", TestFileKind::Test, TestFileChangeKind::Modified),
            ("tests/test_more.py", TestFileKind::Test, TestFileChangeKind::Added),
        ]
    );
    let beside = run.base_tests.as_ref().unwrap();
    assert_eq!(beside.end, SuiteEnd::Failed { exit: ProgramExit::Code(1) });
    assert!(
        beside.output.stderr.head.contains("-1 != 3") && beside.output.stderr.head.contains("Ran 1 test"),
        "{beside:?}"
    );
    let shown = shown_test_run(&EvidenceId::test(2), &run);
    for line in [
        "test-2: passed.\n",
        "Test and build files that differ from the task's base: 3.\n",
        "> modified (test): tests/test_calc.py\n",
        "The base's tests and build files on the new files: failed, exit code 1.\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<nexus_tasks::TestRun>(&json).unwrap(), run);
}

#[tokio::test]
async fn what_the_test_command_names_is_a_test_file() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("check", "#!/bin/sh\ngrep -q right data\n"), ("data", "right\n")]);
    let checks = kit.checks(&settings(&["./check"]));
    let now = kit.change(&[("check", Some("#!/bin/sh\nexit 0\n")), ("data", Some("wrong\n"))]);
    let run = checks.run_tests(&now, &CancelToken::new()).await.unwrap();
    assert!(run.run.is_green());
    assert_eq!(run.changed.len(), 1);
    assert_eq!(run.base_tests.unwrap().end, SuiteEnd::Failed { exit: ProgramExit::Code(1) });
}

/// What `run_tests` says where nothing that the command loads is changed.
const OF_THE_BASE: &str = "Test and build files are unchanged since the task's base.";

/// A row: the command, the base's files, and the files that are changed.
type LoadedRow = (
    &'static str,
    &'static [&'static str],
    &'static [(&'static str, &'static str)],
    &'static [(&'static str, &'static str)],
);

/// Files that a command loads beside the tests, by the ways in which programs load files.
#[rustfmt::skip]
const LOADED: &[LoadedRow] = &[
    ("a module that shadows the runner", &["python3", "-m", "unittest"], &[], &[("unittest.py", "print('OK')")]),
    ("a package that shadows the runner", &["pytest"], &[], &[("pytest/__main__.py", "")]),
    ("a module that shadows the library", &["python3", "-m", "pytest"], &[], &[("json.py", "")]),
    ("a compiled module", &["python3", "-m", "unittest"], &[], &[("unittest.cpython-311-x86_64-linux-gnu.so", "")]),
    ("a new module that may shadow an installed one", &["pytest"], &[], &[("yaml.py", "")]),
    ("the module that is run", &["python3", "-m", "verify"], &[("verify.py", "1")], &[("verify.py", "2")]),
    ("the package that is run", &["python3", "-I", "-m", "ci.verify"], &[("ci/verify/__main__.py", "1")], &[("ci/verify/__main__.py", "2")]),
    ("a module of that package", &["python3", "-m", "verify"], &[("verify/__main__.py", "")], &[("verify/rules.py", "")]),
    ("a program by another spelling", &["ci/../ci/check"], &[("ci/check", "#!/bin/sh\n")], &[("ci/check", "#!/bin/sh\nexit 0\n")]),
    ("a file that the script sources", &["sh", "check.sh"], &[("check.sh", ". ./lib.sh\n"), ("lib.sh", "false")], &[("lib.sh", "true")]),
    ("a program that the script starts", &["./check"], &[("check", "#!/bin/sh\nexec tools/judge\n"), ("tools/judge", "1")], &[("tools/judge", "2")]),
    ("a script of npm", &["npm", "test"], &[("package.json", r#"{"scripts":{"test":"node tools/run.js"}}"#), ("tools/run.js", "1")], &[("tools/run.js", "2")]),
    ("a program of node_modules", &["npx", "jest"], &[], &[("node_modules/.bin/jest", "#!/bin/sh\n")]),
    ("cargo's configuration", &["cargo", "test"], &[], &[("a/.cargo/config", "[build]\n")]),
    ("a build script", &["cargo", "test"], &[("build.rs", "1")], &[("build.rs", "2")]),
    ("a build script of another name", &["cargo", "test"], &[("Cargo.toml", "[package]\nbuild = \"gen/main.rs\"\n"), ("gen/main.rs", "1")], &[("gen/main.rs", "2")]),
    ("a plugin of pytest", &["pytest"], &[], &[("src/conftest.py", "")]),
    ("a plugin that pytest is told of", &["pytest"], &[("pytest.ini", "[pytest]\naddopts = -p tools.plugin\n"), ("tools/plugin.py", "1")], &[("tools/plugin.py", "2")]),
    ("a path file", &["python3", "-m", "unittest"], &[], &[("venv/lib/python3/site-packages/x.pth", "import os")]),
    ("a package of the start", &["python3", "-m", "unittest"], &[], &[("sitecustomize/__init__.py", "")]),
    ("an included part of a makefile", &["make", "test"], &[("Makefile", "include build/rules.inc\n"), ("build/rules.inc", "1")], &[("build/rules.inc", "2")]),
    ("a program in the project by the name of the command", &["python3", "-m", "unittest"], &[], &[("bin/python3", "#!/bin/sh\n")]),
    ("a module that replaces another in go.mod", &["go", "test", "./..."], &[("go.mod", "module x\nreplace assert => ./third/assert\n"), ("third/assert/assert.go", "1")], &[("third/assert/assert.go", "2")]),
    ("a command that is not known", &["sh", "-c", "make"], &[], &[("data", "2")]),
];

#[tokio::test]
async fn files_are_called_those_of_the_base_only_where_all_that_the_command_loads_is() {
    if !has_git() {
        return;
    }
    let mut wrong = Vec::new();
    for (name, command, base, changed) in LOADED {
        let kit = Kit::new(base);
        let changed: Vec<_> = changed.iter().map(|(path, content)| (*path, Some(*content))).collect();
        let now = kit.change(&changed);
        let run = kit.checks(&unsandboxed(command)).run_tests(&now, &CancelToken::new()).await.unwrap();
        let shown = shown_test_run(&EvidenceId::test(1), &run);
        if shown.contains(OF_THE_BASE) {
            wrong.push(format!("{name}: {shown}"));
        }
    }
    assert_eq!(wrong, [""; 0]);
    // What is under test is changed, and nothing else.
    for (command, path) in [
        (&["cargo", "test", "--offline"][..], "src/lib.rs"),
        (&["python3", "-m", "unittest", "discover", "-s", "tests"], "calc.py"),
        (&["pytest", "-q"], "src/calc/__init__.py"),
        (&["go", "test", "./..."], "sum.go"),
    ] {
        let kit = Kit::new(&[(path, "1")]);
        let now = kit.change(&[(path, Some("2"))]);
        let run = kit.checks(&unsandboxed(command)).run_tests(&now, &CancelToken::new()).await.unwrap();
        let shown = shown_test_run(&EvidenceId::test(1), &run);
        assert!(shown.contains(OF_THE_BASE), "{command:?}: {shown}");
    }
}

#[tokio::test]
async fn the_base_s_tests_run_without_a_new_file_that_shadows_their_runner() {
    if !has_all().await || !has_python() {
        return;
    }
    let test = "import sys, unittest\nsys.path.insert(0, 'src')\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n";
    let kit =
        Kit::new(&[("src/calc.py", "def add(a, b):\n    return a + b\n"), ("tests/test_calc.py", test)]);
    let command: Vec<&str> = PYTHON.into_iter().chain(["tests"]).collect();
    let checks = kit.checks(&settings(&command));
    let now = kit.change(&[
        ("src/calc.py", Some("def add(a, b):\n    return 0\n")),
        ("unittest.py", Some("print('OK')\nraise SystemExit(0)\n")),
    ]);
    let run = checks.run_tests(&now, &CancelToken::new()).await.unwrap();
    assert!(run.run.is_green(), "{run:?}");
    let paths: Vec<_> = run.changed.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["unittest.py"]);
    let beside = run.base_tests.unwrap();
    assert!(beside.output.stderr.head.contains("0 != 3"), "{beside:?}");
}

#[tokio::test]
async fn tests_that_fill_the_disk_reach_a_limit_and_leave_no_copy() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[(".gitignore", "big*\n")]);
    let command = ["sh", "-c", "for i in 1 2 3; do dd if=/dev/zero of=big$i bs=1M count=4; done"];
    for mut settings in [settings(&command), unsandboxed(&command)] {
        settings.sandbox.disk_mib = 8;
        let checks = kit.checks(&settings);
        let run = checks.baseline(&CancelToken::new()).await.unwrap().unwrap().run;
        assert_eq!(run.end, SuiteEnd::ReachedLimit { limit: "disk space".to_owned() }, "{run:?}");
        drop(checks);
        until("the copy is removed", || {
            let found = files_below(&kit.copies());
            !found.iter().any(|path| path.to_string_lossy().contains("big"))
        })
        .await;
    }
}

#[tokio::test]
async fn a_run_that_ends_well_without_a_word_is_marked() {
    if !has_git() {
        return;
    }
    let kit = Kit::new(&[]);
    for (command, is_marked) in [(&["true"][..], true), (&["echo", "1 test"], false)] {
        let checks = kit.checks(&unsandboxed(command));
        let shown = shown_baseline(&checks.baseline(&CancelToken::new()).await.unwrap().unwrap());
        assert_eq!(shown.contains("nothing shows that a test ran"), is_marked, "{shown}");
    }
}

#[tokio::test]
async fn a_program_sees_the_tree_at_the_path_of_the_project_and_nothing_of_the_person_s() {
    if !has_all().await {
        return;
    }
    let kit = Kit::beside(
        &[("who", "base\n")],
        &[("untracked", "the person's own"), ("who", "changed by the person\n")],
    );
    let script = "pwd; cat who; cat \"$0/who\"; ls; ls -A $HOME; env | grep -c SECRET";
    let mut host: Vec<(std::ffi::OsString, std::ffi::OsString)> = env::vars_os().collect();
    host.retain(|(name, _)| name != "HOME");
    host.push(("HOME".into(), "/home/me".into()));
    host.push(("SECRET_TOKEN".into(), "canary".into()));
    let project = kit.project();
    let settings = settings(&["sh", "-c", script, project.to_str().unwrap()]);
    let run =
        kit.checks(&settings).with_variables(host).baseline(&CancelToken::new()).await.unwrap().unwrap().run;
    assert_eq!(stdout(&run), format!("{}\nbase\nbase\nwho\n0\n", project.display()), "{run:?}");
    assert_eq!(fs::read_to_string(project.join("who")).unwrap(), "changed by the person\n");
}

#[tokio::test]
async fn outputs_are_kept_for_the_same_tree_and_never_seen_by_another() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[(".gitignore", "built\nset-up\n"), ("source", "1"), ("gone", "")]);
    let script = "cat built set-up 2>/dev/null; cat source; ls extra 2>/dev/null; echo x >> built; echo more >> source; touch extra; rm -f gone";
    let mut settings = settings(&["sh", "-c", script]);
    settings.sandbox.setup = vec![words(&["sh", "-c", "echo \"set up\" >> set-up"])];
    let checks = kit.checks(&settings);
    let cancel = CancelToken::new();
    let run = async |commit| stdout(&checks.run_tests_at_work(commit, &cancel).await.unwrap().run).to_owned();
    let base = kit.base();
    assert_eq!(run(&base).await, "set up\n1");
    assert_eq!(run(&base).await, "x\nset up\n1", "outputs of the same tree, and the tree as it is in git");
    let now = kit.change(&[("source", Some("2"))]);
    assert_eq!(run(&now).await, "set up\n2");
    assert_eq!(run(&base).await, "x\nx\nset up\n1");
    // Another host of the same task, later.
    drop(checks);
    let checks = kit.checks(&settings);
    let again = checks.run_tests_at_work(&base, &cancel).await.unwrap();
    assert_eq!(stdout(&again.run), "x\nx\nx\nset up\n1");
    let clean = checks.run_tests(&base, &cancel).await.unwrap();
    assert_eq!(stdout(&clean.run), "set up\n1", "those who judge begin on a clean tree");
    // One that prepares trees in another way takes nothing of it.
    drop(checks);
    settings.sandbox.setup = vec![words(&["sh", "-c", "echo otherwise > set-up"])];
    let checks = kit.checks(&settings);
    assert_eq!(stdout(&checks.run_tests_at_work(&base, &cancel).await.unwrap().run), "otherwise\n1");
}

#[tokio::test]
async fn a_clean_run_finds_the_caches_of_the_settings_and_nothing_else_that_was_built() {
    if !has_git() {
        return;
    }
    let kit = Kit::new(&[(".gitignore", "out\nbuilt\nlink\n"), ("own/cache/file", "tracked")]);
    let script = "cat built out/cache/x own/cache/* link/x 2>/dev/null; mkdir -p out/cache; echo x >> out/cache/x; echo b >> built; \
                  echo planted > own/cache/new; mkdir -p elsewhere; echo linked > elsewhere/x; ln -sfn elsewhere link; echo .";
    let mut settings = unsandboxed(&["sh", "-c", script]);
    settings.sandbox.caches = words(&["./out/cache/", "own/cache", "link", "absent"]);
    let checks = kit.checks(&settings);
    let (base, cancel) = (kit.base(), CancelToken::new());
    let at_work = async || stdout(&checks.run_tests_at_work(&base, &cancel).await.unwrap().run).to_owned();
    let clean = async || stdout(&checks.run_tests(&base, &cancel).await.unwrap().run).to_owned();
    assert_eq!(at_work().await, "tracked.\n");
    assert_eq!(clean().await, "x\ntracked.\n");
    assert_eq!(clean().await, "x\nx\ntracked.\n");
}

#[tokio::test]
async fn a_setup_that_fails_is_told_with_what_it_said() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[]);
    let mut settings = settings(&["true"]);
    settings.sandbox.setup =
        vec![words(&["true"]), words(&["sh", "-c", "echo broken >&2; exit 4"]), words(&["touch", "x"])];
    let checks = kit.checks(&settings);
    let run = checks.baseline(&CancelToken::new()).await.unwrap().unwrap().run;
    let SuiteEnd::DidNotStart { missing } = &run.end else { panic!("{run:?}") };
    assert_eq!(
        missing,
        "`sh -c echo broken >&2; exit 4`, which prepares the tree: it ended with exit code 4"
    );
    assert_eq!(run.output.stderr.head, "broken\n");
    let record = checks
        .run_probe(probe(&[], &["true"]), &kit.sides(&kit.base(), &kit.base()), &CancelToken::new())
        .await;
    assert!(format!("{:?}", record.unwrap().answers[2].outcomes).contains("which prepares the tree"));
}

#[tokio::test]
async fn kept_folders_are_shown_read_only_and_none_that_leads_out() {
    if !has_all().await {
        return;
    }
    let kit = Kit::beside(
        &[(".gitignore", "node_modules/\n.venv\n")],
        &[("node_modules/lib/index.js", "kept\n"), ("real/bin/tool", "linked\n")],
    );
    symlink("real", kit.project().join(".venv")).unwrap();
    symlink("/etc", kit.project().join("out")).unwrap();
    let script = "cat node_modules/lib/index.js .venv/bin/tool; echo no > node_modules/lib/index.js; rm -rf node_modules/lib; touch .venv/x; ls node_modules/lib";
    let mut settings = settings(&["sh", "-c", script]);
    settings.sandbox.keep = words(&["node_modules", ".venv", "absent"]);
    for _ in 0..2 {
        let run = kit.checks(&settings).baseline(&CancelToken::new()).await.unwrap().unwrap().run;
        assert_eq!(stdout(&run), "kept\nlinked\nindex.js\n", "{run:?}");
    }
    assert_eq!(fs::read_to_string(kit.project().join("node_modules/lib/index.js")).unwrap(), "kept\n");
    assert!(!kit.project().join("real/x").exists());
    for bad in ["out", "../home", "/etc", ".git", "."] {
        settings.sandbox.keep = words(&["node_modules", bad]);
        let error = kit.checks(&settings).baseline(&CancelToken::new()).await.unwrap_err();
        assert!(
            matches!(&error, CheckError::Settings { setting, .. } if setting == "sandbox.keep[1]"),
            "{bad}: {error}"
        );
    }
    // A tree that has a link in the place: nothing is mounted over where it leads.
    settings.sandbox.keep = words(&["node_modules"]);
    let out = kit.folder.path().join("task/linked");
    kit.tree.restore(&kit.base(), &out, &[]).unwrap();
    fs::create_dir(out.join("real")).unwrap();
    fs::write(out.join("real/x"), "").unwrap();
    symlink("real", out.join("node_modules")).unwrap();
    let snapshot = kit.tree.snapshot(&out).unwrap();
    let intent = nexus_trees::CommitIntent::new(snapshot, kit.base(), std::time::UNIX_EPOCH, "Link it");
    let now = kit.tree.commit(&intent).unwrap();
    let run = kit.checks(&settings).run_tests(&now, &CancelToken::new()).await.unwrap().run;
    let SuiteEnd::DidNotStart { missing } = &run.end else { panic!("{run:?}") };
    assert!(missing.contains("a symbolic link is part of the path"), "{missing}");
}

#[tokio::test]
async fn two_runs_at_once_never_share_a_copy_and_a_third_waits() {
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("mine", "")]);
    // Each waits for a while in which another would be seen in its copy.
    let script = "echo $$ >> mine; sleep 0.3; wc -l < mine";
    let checks = kit.checks(&settings(&["sh", "-c", script]));
    let (cancel, base) = (CancelToken::new(), kit.base());
    let other = kit.checks(&settings(&["sh", "-c", script]));
    let run = async |checks: &nexus_tasks::Checks| {
        stdout(&checks.run_tests(&base, &cancel).await.unwrap().run).trim().to_owned()
    };
    let began = std::time::Instant::now();
    let all = tokio::join!(run(&checks), run(&checks), run(&checks), run(&checks), run(&other));
    assert_eq!(all, ("1".into(), "1".into(), "1".into(), "1".into(), "1".into()));
    assert!(began.elapsed() >= Duration::from_millis(600), "more than two ran at once");
}

#[tokio::test]
async fn cancelling_and_dropping_leave_no_process_and_no_copy() {
    if !has_all().await {
        return;
    }
    for is_sandboxed in [true, false] {
        let kit = Kit::new(&[]);
        let word = format!("98765.{}{}", std::process::id(), u8::from(is_sandboxed));
        let command = ["sh", "-c", "sleep \"$0\" & sleep \"$0\" & touch begun; wait", &word];
        let settings = if is_sandboxed { settings(&command) } else { unsandboxed(&command) };
        let checks = kit.checks(&settings);
        let cancel = CancelToken::new();
        let running = tokio::spawn({
            let (checks, base, cancel) = (checks.clone(), kit.base(), cancel.clone());
            async move { checks.run_tests(&base, &cancel).await }
        });
        until("it begins", || alive_with(&word) > 2).await;
        cancel.cancel();
        assert!(matches!(running.await.unwrap(), Err(CheckError::Cancelled)));
        assert_eq!(alive_with(&word), 0);
        assert!(matches!(checks.run_tests(&kit.base(), &cancel).await, Err(CheckError::Cancelled)));

        let argv: Vec<&str> = command.to_vec();
        let dropped = {
            let (checks, sides, probe) =
                (checks.clone(), kit.sides(&kit.base(), &kit.base()), probe(&[], &argv));
            tokio::spawn(async move { checks.run_probe(probe, &sides, &CancelToken::new()).await.map(drop) })
        };
        until("starts it again", || alive_with(&word) > 2).await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        until("nothing runs", || alive_with(&word) == 0).await;
        until("no copy is left", || scratch_folders(&kit) == 0).await;
        assert_eq!(kit.store().numbers().unwrap(), [0_u32; 0]);
    }
}

#[tokio::test]
async fn without_a_sandbox_programs_run_in_a_copy_with_a_built_environment() {
    if !has_git() {
        return;
    }
    let kit = Kit::beside(
        &[(".gitignore", "vendor/\n"), ("who", "base\n")],
        &[("vendor/lib", "kept\n"), ("vendor/deep/x", "")],
    );
    let script =
        "pwd; cat who vendor/lib; echo \"$SECRET_TOKEN\"; echo \"$HOME\" > who; ls -A \"$HOME\"; kill -0 $$";
    let mut settings = unsandboxed(&["sh", "-c", script]);
    settings.sandbox.keep = words(&["vendor"]);
    let mut host: Vec<(std::ffi::OsString, std::ffi::OsString)> = env::vars_os().collect();
    host.push(("SECRET_TOKEN".into(), "canary".into()));
    let checks = kit.checks(&settings).with_variables(host);
    for _ in 0..2 {
        let run = checks.baseline(&CancelToken::new()).await.unwrap().unwrap().run;
        let lines: Vec<&str> = stdout(&run).lines().collect();
        assert!(PathBuf::from(lines[0]).starts_with(kit.copies()), "{lines:?}");
        assert_eq!(lines[1..], ["base", "kept", ""], "{run:?}");
        assert!(run.is_green());
    }
    assert_eq!(fs::read_to_string(kit.project().join("who")).unwrap(), "base\n");
    for (command, wanted) in [
        (&["nosuchtool"][..], "nosuchtool"),
        (&["./nowhere"], "did not start"),
        (&["sh", "-c", "nosuchtool"], "did not start"),
        (&["sh", "-c", "exit 9"], "failed, exit code 9"),
        (&["sh", "-c", "yes"], "reached the limit on output"),
    ] {
        let baseline =
            kit.checks(&unsandboxed(command)).baseline(&CancelToken::new()).await.unwrap().unwrap();
        assert!(shown_baseline(&baseline).contains(wanted), "{}", shown_baseline(&baseline));
    }
    let mut slow = unsandboxed(&["sleep", "1000"]);
    slow.sandbox.seconds = 1;
    let slow = kit.checks(&slow).baseline(&CancelToken::new()).await.unwrap().unwrap();
    assert_eq!(slow.run.end, SuiteEnd::TimedOut);
}

#[tokio::test]
async fn a_cargo_project_is_built_anew_for_each_tree_and_not_for_the_same_one() {
    if !has_all().await {
        return;
    }
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = sysroot.ok().filter(|output| output.status.success());
    let sysroot = sysroot.map(|output| PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()));
    let Some(sysroot) = sysroot.filter(|path| path.join("bin/cargo").exists()) else {
        eprintln!("NOT TESTED: this user has no cargo");
        return;
    };
    let lib = |sum: &str| format!("pub fn add(a: i32, b: i32) -> i32 {{ {sum} }}\n");
    let kit = Kit::new(&[
        (".gitignore", "/target\n"),
        ("Cargo.toml", "[package]\nname = \"calc\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"calc\"\nversion = \"0.1.0\"\n"),
        ("src/lib.rs", &lib("a + b")),
        ("tests/add.rs", "#[test]\nfn adds() { assert_eq!(calc::add(1, 2), 3); }\n"),
    ]);
    let mut settings = settings(&["cargo", "test", "--offline"]);
    settings.sandbox.caches = words(&["target"]);
    settings.sandbox.tool_chains = vec![sysroot.clone()];
    let path = env::join_paths([sysroot.join("bin"), "/usr/bin".into()]).unwrap();
    let checks = kit.checks(&settings).with_variables([("PATH".into(), path)]);
    let cancel = CancelToken::new();
    let base = checks.baseline(&cancel).await.unwrap().unwrap().run;
    assert!(base.is_green() && base.output.stderr.head.contains("Compiling calc"), "{base:?}");
    let again = checks.run_tests(&kit.base(), &cancel).await.unwrap().run;
    assert!(again.is_green() && !again.output.stderr.head.contains("Compiling calc"), "{again:?}");
    let now = kit.change(&[("src/lib.rs", Some(&lib("a - b")))]);
    let now = checks.run_tests(&now, &cancel).await.unwrap();
    assert_eq!(now.run.end, SuiteEnd::Failed { exit: ProgramExit::Code(101) });
    assert!(now.run.output.stderr.head.contains("Compiling calc"), "{now:?}");
}

#[tokio::test]
async fn folders_and_files_of_copies_are_their_owner_s_alone_and_what_was_left_half_made_goes() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has_all().await {
        return;
    }
    let kit = Kit::new(&[("a", "")]);
    let half = kit.copies().join("0/scratch/half");
    write(&half.join("tree/file"), "left by a host that was killed");
    write(&kit.copies().join("0/tests/half/tree/file"), "");
    write(&kit.copies().join("0/prepared/half/tree/file"), "");
    let base = kit.base();
    let tree = kit.tree.tree_of(&base).unwrap();
    write(&kit.copies().join(format!("0/prepared/{tree}/tree/planted")), "");
    let run = kit.baseline(&["sh", "-c", "ls"]).await;
    assert_eq!(stdout(&run), "a\n");
    for left in ["half", "planted"] {
        let found = files_below(&kit.copies());
        assert!(!found.iter().any(|path| path.iter().any(|name| name == left)), "{found:?}");
    }
    let kit = Kit::new(&[]);
    kit.baseline(&["true"]).await;
    let mode = |path: &str| fs::metadata(kit.copies().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("0"), mode("0/scratch"), mode("0/.lock")), (0o700, 0o700, 0o600));
}
