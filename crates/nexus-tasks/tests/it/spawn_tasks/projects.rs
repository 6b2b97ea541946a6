//! Projects as they are found: repositories in odd states, tests that fail, a machine without a sandbox, and landing.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, OnceLock},
};

use nexus_tasks::{
    LandingOutcome, SandboxKind, TaskCreateRequest, TaskErrorKind, TaskLandRequest, TaskLanding,
    TaskListRequest, Tasks,
};
use nexus_testkit::child_test;
use serde_json::json;

use super::kit::{
    Act, World, agents, brief, commit_all, git, has_git, honest, make_project, options, orchestrate, router,
    run_step, status, walk, work,
};

async fn done(world: &World) -> String {
    let id = world.framed().await;
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    id
}

async fn land(world: &World, id: &str) -> TaskLanding {
    world.tasks.land(TaskLandRequest::new(id)).await.unwrap()
}

#[tokio::test]
async fn a_task_lands_on_the_branch_that_it_began_on_and_once() {
    let Some(world) = World::new(honest) else { return };
    let project = world.project();
    commit_all(&project);
    let (refs, config) = (git(&project, &["for-each-ref"]), fs::read(project.join(".git/config")).unwrap());
    let id = world.framed().await;
    assert_eq!(land(&world, &id).await.outcome, LandingOutcome::Nothing);
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    // Until then the person's repository has the one ref more, which pins the base.
    let during = git(&project, &["for-each-ref"]);
    assert_eq!(during.lines().filter(|line| !refs.contains(line)).count(), 1, "{during}");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    let landing = land(&world, &id).await;
    assert_eq!(
        (landing.outcome, landing.branch.as_deref()),
        (LandingOutcome::Landed, Some("refs/heads/main"))
    );
    assert_eq!(landing.commit.as_deref(), Some(git(&project, &["rev-parse", "main"]).as_str()));
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert_eq!(git(&project, &["rev-list", "--count", "main"]), "4");
    assert_eq!(fs::read_to_string(project.join("src/last.txt")).unwrap(), "src/last.txt was made\n");
    assert_eq!(fs::read(project.join(".git/config")).unwrap(), config);
    let trailers = git(&project, &["log", "-1", "--format=%(trailers:only)"]);
    for trailer in [&format!("Task: {id}"), "Step: 5", "Agent-Type: executor", "Verdict: advance"] {
        assert!(trailers.contains(trailer), "{trailers}");
    }
    assert!(!trailers.contains("vendor"), "{trailers}");
    let again = land(&world, &id).await;
    assert_eq!((again.outcome, again.commit), (LandingOutcome::Landed, landing.commit));
}

#[tokio::test]
async fn what_keeps_a_task_from_landing_is_said_and_the_patch_applies() {
    type Hinder = fn(&Path);
    let obstacles: [(&str, Hinder); 4] = [
        ("moved", |project| {
            fs::write(project.join("other.txt"), "other\n").unwrap();
            git(project, &["add", "-A"]);
            git(project, &["commit", "--quiet", "-m", "meanwhile"]);
        }),
        ("in the way", |project| fs::write(project.join("src/one.txt"), "mine\n").unwrap()),
        ("gone", |project| {
            git(project, &["checkout", "--quiet", "-b", "elsewhere"]);
            git(project, &["branch", "-D", "main"]);
        }),
        ("another git", |project| fs::write(project.join(".git/index.lock"), "").unwrap()),
    ];
    for (word, hinder) in obstacles {
        let Some(world) = World::new(honest) else { return };
        let project = world.project();
        commit_all(&project);
        let id = done(&world).await;
        hinder(&project);
        let head = git(&project, &["rev-parse", "HEAD"]);
        let landing = land(&world, &id).await;
        assert_eq!(landing.outcome, LandingOutcome::Patch, "{word}: {landing:?}");
        assert!(landing.obstacle.as_ref().unwrap().contains(word), "{landing:?}");
        assert_eq!(git(&project, &["rev-parse", "HEAD"]), head);
        if word == "in the way" {
            assert_eq!(fs::read_to_string(project.join("src/one.txt")).unwrap(), "mine\n");
            continue;
        }
        let _ = fs::remove_file(project.join(".git/index.lock"));
        let request =
            nexus_tasks::TaskArtifactRequest { task_id: id, artifact: landing.patch.unwrap(), offset: 0 };
        let patch = world.root.join("the.patch");
        fs::write(&patch, world.tasks.artifact(request).await.unwrap().text).unwrap();
        git(&project, &["apply", patch.to_str().unwrap()]);
        assert_eq!(fs::read_to_string(project.join("src/last.txt")).unwrap(), "src/last.txt was made\n");
    }
}

#[tokio::test]
async fn after_another_commit_a_task_lands_as_a_merge_or_a_rebase_that_passes_its_tests_or_as_a_branch() {
    let tests = "test ! -e broken";
    for (is_rebase, is_broken, test) in [
        (false, false, tests),
        (false, true, tests),
        (false, true, ""),
        (true, false, tests),
        (true, true, tests),
    ] {
        let Some(world) = World::new(honest) else { return };
        let project = world.project();
        commit_all(&project);
        let command = ["sh", "-c", test].map(str::to_owned).to_vec();
        let request =
            TaskCreateRequest { test_command: (!test.is_empty()).then_some(command), ..world.request() };
        let id = world.tasks.create(request).await.unwrap().task_id;
        assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
        assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
        let name = if is_broken { "broken" } else { "other.txt" };
        fs::write(project.join(name), "meanwhile\n").unwrap();
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "--quiet", "-m", "meanwhile"]);
        let moved = git(&project, &["rev-parse", "HEAD"]);
        let said = land(&world, &id).await.obstacle.unwrap();
        for way in ["--merge", "--rebase", "--branch"] {
            assert!(said.contains(way), "{said}");
        }

        let as_branch = TaskLandRequest { branch: Some("fix/one".to_owned()), ..TaskLandRequest::new(&id) };
        let landing = world.tasks.land(as_branch.clone()).await.unwrap();
        assert_eq!(landing.branch.as_deref(), Some("refs/heads/fix/one"), "{landing:?}");
        assert_eq!(git(&project, &["rev-parse", "HEAD"]), moved);
        let trailers = git(&project, &["log", "-1", "--format=%(trailers:only)", "fix/one"]);
        assert!(trailers.contains(&format!("Task: {id}")), "{trailers}");

        let ways = [
            TaskLandRequest { merge: true, ..as_branch.clone() },
            TaskLandRequest { rebase: true, ..as_branch },
            TaskLandRequest { merge: true, rebase: true, ..TaskLandRequest::new(&id) },
        ];
        for several in ways {
            assert_eq!(world.tasks.land(several).await.unwrap_err().kind, TaskErrorKind::InvalidArgument);
        }
        let join = TaskLandRequest { merge: !is_rebase, rebase: is_rebase, ..TaskLandRequest::new(&id) };
        let landing = world.tasks.land(join.clone()).await.unwrap();
        if is_broken && !test.is_empty() {
            assert_eq!(landing.outcome, LandingOutcome::Patch, "{landing:?}");
            let said = landing.obstacle.unwrap();
            let what =
                if is_rebase { "the commits rebased on the branch" } else { "the merge with the branch" };
            assert!(said.contains(&format!("the tests on {what}: failed")), "{said}");
            assert_eq!(git(&project, &["rev-parse", "HEAD"]), moved);
        } else {
            assert_eq!(landing.outcome, LandingOutcome::Landed, "{landing:?}");
            if is_rebase {
                let as_written = |branch| git(&project, &["log", "-3", "--format=%an %ae %at %B", branch]);
                assert_eq!(as_written("main"), as_written("fix/one"));
                assert_eq!(git(&project, &["rev-parse", "main~3"]), moved);
            } else {
                assert_eq!(git(&project, &["log", "-1", "--format=%P"]).split(' ').next(), Some(&*moved));
            }
            // Every way knows that the work has landed.
            for again in [join, TaskLandRequest::new(&id)] {
                assert_eq!(world.tasks.land(again).await.unwrap().commit, landing.commit);
            }
            assert!(project.join(name).exists() && project.join("src/last.txt").exists());
        }
        assert_eq!(git(&project, &["status", "--porcelain"]), "");
    }
}

#[tokio::test]
async fn a_conflict_and_a_rewritten_branch_name_the_commands_that_lead_on() {
    let Some(world) = World::new(honest) else { return };
    let project = world.project();
    commit_all(&project);
    let id = done(&world).await;
    fs::write(project.join("src/one.txt"), "another one\n").unwrap();
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "meanwhile"]);
    let head = git(&project, &["rev-parse", "HEAD"]);
    for rebase in [false, true] {
        let join = TaskLandRequest { merge: !rebase, rebase, ..TaskLandRequest::new(&id) };
        let landing = world.tasks.land(join).await.unwrap();
        assert_eq!((landing.outcome, landing.patch.as_deref()), (LandingOutcome::Patch, Some("patch")));
        let said = landing.obstacle.unwrap();
        assert!(said.contains("\"src/one.txt\"") && said.contains("--branch NAME"), "{said}");
    }
    assert_eq!(git(&project, &["rev-parse", "HEAD"]), head);
    git(&project, &["reset", "--quiet", "--hard", "HEAD~1"]);
    git(&project, &["commit", "--quiet", "--amend", "--allow-empty", "-m", "the first, rewritten"]);
    let said = land(&world, &id).await.obstacle.unwrap();
    assert!(said.contains("rewritten") && said.contains("--rebase") && !said.contains("--merge"), "{said}");
    let rebase = TaskLandRequest { rebase: true, ..TaskLandRequest::new(&id) };
    assert_eq!(world.tasks.land(rebase).await.unwrap().outcome, LandingOutcome::Landed);
    assert_eq!(git(&project, &["log", "-1", "--format=%s", "main~3"]), "the first, rewritten");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
}

#[tokio::test]
async fn landing_waits_for_another_process_that_tidies_up_after_the_end() {
    let Some(world) = World::new(honest) else { return };
    commit_all(&world.project());
    let id = done(&world).await;
    let task = world.tasks.store().open(&id).unwrap();
    let hold = task.try_hold_step().unwrap().unwrap();
    let landing = land(&world, &id);
    let tidying = async {
        // Longer than a call waits for another one that only looks.
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        drop(hold);
    };
    let (landing, ()) = tokio::join!(landing, tidying);
    assert_eq!(landing.outcome, LandingOutcome::Landed, "{landing:?}");
}

#[tokio::test]
async fn on_a_detached_head_and_in_a_repository_without_commits_there_is_a_task_and_a_patch() {
    for is_detached in [true, false] {
        let Some(world) = World::new(honest) else { return };
        let project = world.project();
        match is_detached {
            true => {
                commit_all(&project);
                git(&project, &["checkout", "--quiet", "--detach"]);
            }
            false => drop(git(&project, &["init", "--quiet"])),
        }
        let request = TaskCreateRequest { include_uncommitted: !is_detached, ..world.request() };
        let id = world.tasks.create(request).await.unwrap().task_id;
        assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
        assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
        let landing = land(&world, &id).await;
        assert_eq!(landing.outcome, LandingOutcome::Patch);
        let said = landing.obstacle.unwrap();
        assert!(said.contains("patch"), "{said}");
    }
}

#[tokio::test]
async fn submodules_and_files_under_a_filter_are_told_and_cannot_be_changed() {
    let Some(world) = World::new(|seen| match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", {
            let mut draft = brief(&[("src/one.txt", None)]);
            draft["write"] = json!(["."]);
            draft
        })],
        "implement" => {
            let write =
                |path: &str| Act::Call("write_file", json!({ "path": path, "content": "the content\n" }));
            let edit = json!({ "path": "./big.bin", "expected_hash": "x", "old_text": "size 1", "new_text": "size 2" });
            let mut acts = vec![
                write("module/new"),
                write("src/../new.bin"),
                Act::Call("delete_file", json!({ "path": "big.bin" })),
                Act::Call("edit_file", edit),
            ];
            acts.extend(work(seen, "step_done"));
            acts
        }
        _ => honest(seen),
    }) else {
        return;
    };
    let (project, other) = (world.project(), world.root.join("other"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("inside"), "1\n").unwrap();
    commit_all(&other);
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    fs::write(project.join("big.bin"), pointer).unwrap();
    git(&project, &["init", "--quiet"]);
    git(&project, &["submodule", "--quiet", "add", other.to_str().unwrap(), "module"]);
    git(&project, &["add", "-A"]);
    git(&project, &["commit", "--quiet", "-m", "first"]);
    fs::write(project.join(".gitattributes"), "*.bin filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    git(&project, &["add", ".gitattributes"]);
    git(&project, &["commit", "--quiet", "-m", "filter"]);
    let created = world.create().await;
    let told = created.warnings.join("\n");
    assert!(told.contains("the task has only pointers") && told.contains("big.bin"), "{told}");
    assert!(told.contains("submodules") && told.contains("module"), "{told}");
    let id = created.task_id;
    assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
    let framing = world.agents.seen.lock().unwrap()[0].clone();
    assert!(format!("{}{}", framing.prompt, framing.brief).contains("big.bin"));
    // What may not be written is refused by the tool at once, in words that say why, and the agent goes on without it.
    let report = run_step(&world.tasks, &id).await;
    assert_eq!(report.status, "complete", "{report:#?}");
    let answers = world.agents.answers.lock().unwrap().clone();
    let said: Vec<&str> =
        answers.iter().filter(|(tool, _)| tool.ends_with("_file")).map(|(_, text)| text.as_str()).collect();
    let [into_module, new_pointer, old_pointer, edited, plain] = said.as_slice() else { panic!("{said:?}") };
    assert!(into_module.contains("\"module/new\" is in a submodule"), "{into_module}");
    for (answer, name) in [(new_pointer, "new.bin"), (old_pointer, "big.bin"), (edited, "big.bin")] {
        assert!(
            answer.contains(name) && answer.contains("filter") && answer.contains("nothing was changed"),
            "{answer}"
        );
    }
    assert!(!plain.contains("nothing was changed"), "{plain}");
    let request = nexus_tasks::TaskResultRequest { task_id: id, offset: 0 };
    assert_eq!(world.tasks.result(request).await.unwrap().files, ["added src/one.txt"]);
}

#[tokio::test]
async fn what_gets_into_a_submodule_or_under_a_filter_beside_the_tools_is_not_committed() {
    for path in ["module/new", "new.bin", "big.bin"] {
        let root = Arc::new(OnceLock::<PathBuf>::new());
        let known = Arc::clone(&root);
        let script = move |seen: &crate::spawn_tasks::kit::Seen| match seen.phase {
            "orchestrate" => {
                let mut draft = brief(&[("src/one.txt", None)]);
                draft["write"] = json!(["."]);
                vec![Act::Call("submit_brief", draft)]
            }
            "implement" => {
                // As a test of the project's could: it lies in the unit's own folder, and no tool was asked.
                for task in fs::read_dir(known.get().unwrap().join("home/tasks")).unwrap() {
                    for unit in fs::read_dir(task.unwrap().path().join("work")).unwrap() {
                        let unit = unit.unwrap().path();
                        fs::create_dir_all(unit.join("module")).unwrap();
                        fs::write(unit.join(path), "smuggled\n").unwrap();
                    }
                }
                work(seen, "step_done")
            }
            _ => honest(seen),
        };
        let Some(world) = World::new(script) else { return };
        root.set(world.root.clone()).unwrap();
        let (project, other) = (world.project(), world.root.join("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("inside"), "1\n").unwrap();
        commit_all(&other);
        fs::write(project.join("big.bin"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
        git(&project, &["init", "--quiet"]);
        git(&project, &["submodule", "--quiet", "add", other.to_str().unwrap(), "module"]);
        git(&project, &["add", "-A"]);
        git(&project, &["commit", "--quiet", "-m", "first"]);
        fs::write(project.join(".gitattributes"), "*.bin filter=lfs -text\n").unwrap();
        git(&project, &["add", ".gitattributes"]);
        git(&project, &["commit", "--quiet", "-m", "filter"]);
        let id = world.framed().await;
        let report = run_step(&world.tasks, &id).await;
        let said = format!("{report:?}");
        assert_eq!(report.status, "escalated", "{path}: {said}");
        assert!(said.contains(path.split('/').next().unwrap()), "{path}: {said}");
        let request = nexus_tasks::TaskResultRequest { task_id: id, offset: 0 };
        let result = world.tasks.result(request).await.unwrap();
        assert_eq!((result.commits.len(), result.files), (0, Vec::new()), "{path}");
    }
}

#[tokio::test]
async fn a_project_of_ten_thousand_files_is_walked_and_only_what_changed_is_in_the_result() {
    let script = |seen: &crate::spawn_tasks::kit::Seen| match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", brief(&[("src/one.txt", None)]))],
        _ => honest(seen),
    };
    let Some(world) = World::new(script) else { return };
    let project = world.project();
    for folder in 0..100 {
        let folder = project.join(format!("many/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(format!("{file}.txt")), format!("{file}\n")).unwrap();
        }
    }
    commit_all(&project);
    let began = std::time::Instant::now();
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!(report.status, "complete", "{report:?}");
    // Far above what it takes on a busy machine: a cost by file that is not linear is noticed.
    assert!(began.elapsed() < std::time::Duration::from_secs(600), "{:?}", began.elapsed());
    let request = nexus_tasks::TaskResultRequest { task_id: id, offset: 0 };
    assert_eq!(world.tasks.result(request).await.unwrap().files, ["added src/one.txt"]);
}

#[tokio::test]
async fn the_tests_of_the_base_are_run_before_a_model_is_asked_and_what_is_wrong_is_said() {
    let commands: [(&[&str], &str, &str, u64); 4] = [
        (&["true"], "passed", "", 60),
        (&["sh", "-c", "echo two of three fail; exit 1"], "failed", "fail before any change", 60),
        (&["no-such-program"], "did_not_start", "no-such-program", 60),
        (&["sleep", "600"], "timed_out", "do not end in time", 1),
    ];
    for (command, outcome, warning, seconds) in commands {
        let change = |options: &mut nexus_tasks::TasksOptions| options.settings.sandbox.seconds = seconds;
        let Some(world) = World::with(honest, &json!({}), change) else { return };
        let command = command.iter().map(|part| (*part).to_owned()).collect();
        let request = TaskCreateRequest { test_command: Some(command), ..world.request() };
        let created = world.tasks.create(request).await.unwrap();
        assert_eq!(created.baseline.as_ref().unwrap().outcome, outcome, "{created:?}");
        assert!(world.agents.seen.lock().unwrap().is_empty(), "no model was asked");
        let said = created.warnings.join("\n");
        assert!(said.contains(warning), "{said}");
        assert_eq!(said.is_empty(), warning.is_empty(), "{said}");
        // It is a task all the same, and its orchestrator knows.
        assert_eq!(orchestrate(&world.tasks, &created.task_id).await.status, "active");
        let framing = world.agents.seen.lock().unwrap()[0].clone();
        assert!(framing.prompt.contains(warning), "{}", framing.prompt);
        let report = status(&world.tasks, &created.task_id).await;
        assert_eq!(report.warnings, created.warnings);
    }
}

#[tokio::test]
async fn tests_of_the_base_that_take_long_go_on_and_framing_waits_for_them() {
    let Some(world) = World::new(honest) else { return };
    let go = world.root.join("go");
    let script = format!("until test -e {}; do sleep 0.05; done; echo red; exit 1", go.display());
    let request = TaskCreateRequest {
        test_command: Some(vec!["sh".to_owned(), "-c".to_owned(), script]),
        wait_s: Some(0),
        ..world.request()
    };
    let created = world.tasks.create(request).await.unwrap();
    assert_eq!(created.baseline.unwrap().outcome, "running");
    let id = created.task_id;
    let shortly =
        nexus_tasks::TaskOrchestrateRequest { task_id: id.clone(), wait_s: Some(0), ..Default::default() };
    let framed = world.tasks.orchestrate(shortly).await.unwrap();
    assert!(framed.running && framed.progress.unwrap().contains("tests"));
    assert!(world.agents.seen.lock().unwrap().is_empty());
    fs::write(go, "").unwrap();
    let report = orchestrate(&world.tasks, &id).await;
    assert_eq!(report.status, "active");
    assert!(report.warnings.iter().any(|warning| warning.contains("fail before")), "{:?}", report.warnings);
}

const ROOT: &str = "NEXUS_TEST_NO_SANDBOX_ROOT";

#[tokio::test]
async fn without_a_sandbox_a_task_is_refused_with_the_command_that_installs_one() {
    if let Some(root) = env::var_os(ROOT) {
        let root = Path::new(&root);
        let mut options = options(root);
        options.settings.sandbox.kind = SandboxKind::Bubblewrap;
        let tasks = Tasks::new(router(&agents(honest), &json!({})), options);
        let request = || TaskCreateRequest {
            goal: "x".to_owned(),
            project: root.join("project"),
            ..Default::default()
        };
        let error = tasks.create(request()).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::MissingProgram, "{error}");
        assert!(error.message.contains("apt-get install bubblewrap"), "{error}");
        assert!(error.advice.contains("kind: none"), "{error}");
        assert!(tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
        assert!(!root.join("home/tasks").exists(), "nothing was made");
        return;
    }
    if !has_git() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    make_project(folder.path());
    // For the started process alone the folder of programs is one without it.
    let script = "mkdir \"$1/real\" \"$1/bin\" && mount --bind /usr/bin \"$1/real\" && ln -s \"$1\"/real/* \"$1/bin\" && \
                  rm -f \"$1/bin/bwrap\" && mount --bind \"$1/bin\" /usr/bin || exit 77; shift; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]).arg(folder.path());
    let test = without_a_sandbox_a_task_is_refused_with_the_command_that_installs_one;
    match child_test::through(launcher, test).env(ROOT, folder.path()).output() {
        Ok(output) if matches!(output.status.code(), Some(0 | 101)) => {
            child_test::assert_passed("the task without a sandbox", &output);
        }
        unable => println!("NOT TESTED: no program can be hidden ({unable:?})"),
    }
}
