//! Callers, agents and folders that mean harm.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use nexus_tasks::{
    TaskArtifactRequest, TaskErrorKind, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
    TaskResultRequest, TaskStatusRequest, task_report,
};
use serde::Serialize;
use serde_json::json;

use super::kit::{Act, Seen, World, honest, run, run_step, status};

/// The largest answer that every client passes whole, in bytes.
const MOST: usize = 10_000;

fn fits<T: Serialize>(what: &str, answer: &T) {
    let bytes = serde_json::to_vec(answer).unwrap().len();
    assert!(bytes <= MOST, "{what} has {bytes} bytes");
}

/// The largest brief that holds: every text as long as it may be, and bands with long names.
fn largest_brief() -> serde_json::Value {
    let long = |number: usize| format!("c{number:063}");
    let text = "\"\\".repeat(1_000);
    let plan: Vec<_> = (0..12)
        .map(|entry| {
            json!({
                "tier": "execution", "phase": "implement", "agent_type": "executor",
                "outcome": format!("make src/{entry}.txt\n{}", "\"".repeat(1_900)),
                "parallel_group": format!("g{:063}", entry),
                "write_slice": [format!("src/{entry}.txt")],
                "criteria": (0..64).map(long).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
        "problem": "p".repeat(16_000),
        "criteria": (0..64).map(|number| json!({ "id": long(number), "text": text })).collect::<Vec<_>>(),
        "clarifications": vec![text.clone(); 64],
        "out_of_scope": vec![text; 64],
        "read": ["."], "write": ["src"],
        "plan": plan,
    })
}

fn wordy(seen: &Seen) -> Vec<Act> {
    match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", largest_brief())],
        "implement" => {
            let line = seen.prompt.lines().find_map(|line| line.strip_prefix("> make ")).unwrap();
            let path = line.split_whitespace().next().unwrap().to_owned();
            let claims: Vec<_> = (0..32).map(|_| json!({ "text": "\"".repeat(2_000) })).collect();
            vec![
                Act::Call("write_file", json!({ "path": path, "content": "x\n" })),
                Act::Call(
                    "submit_handoff",
                    json!({ "claims": claims, "files": [path], "action": "step_done" }),
                ),
            ]
        }
        _ => {
            let path = seen.prompt.lines().find_map(|line| line.strip_prefix("> make ")).unwrap();
            let path = path.split_whitespace().next().unwrap().to_owned();
            let due = seen.prompt.lines().filter_map(|line| {
                let (id, when) = line.strip_prefix("[criterion ")?.split_once(", which ")?;
                when.starts_with("has to hold after this step").then(|| id.to_owned())
            });
            let cited = vec![format!("diff:{path}:1"); 1];
            let criteria: Vec<_> = due
                .chain(["outcome".to_owned()])
                .map(|id| json!({ "id": id, "judgement": "fail", "evidence": cited }))
                .collect();
            let concerns: Vec<_> =
                (0..32).map(|_| json!({ "text": "\\".repeat(2_000), "evidence": cited })).collect();
            vec![Act::Call(
                "submit_verdict",
                json!({
                    "decision": "retry", "criteria": criteria, "alignment": 0.1, "blocking_concerns": concerns,
                    "retry_hint": "\"".repeat(2_000),
                }),
            )]
        }
    }
}

#[tokio::test]
async fn every_answer_on_the_largest_task_is_one_that_every_client_passes() {
    let world = World::with(wordy, &json!({}), |options| options.settings.max_review_retries = 8);
    let Some(world) = world else { return };
    let labels = (0..16).map(|number| (format!("{number:0200}"), "\"".repeat(250))).collect();
    let request = nexus_tasks::TaskCreateRequest {
        goal: "\"".repeat(16_000),
        labels,
        context: Some("\"".repeat(60_000)),
        ..world.request()
    };
    let created = world.tasks.create(request).await.unwrap();
    fits("create", &created);
    let id = created.task_id;
    let framing = || TaskOrchestrateRequest { task_id: id.clone(), ..Default::default() };
    let mut framed = world.tasks.orchestrate(framing()).await.unwrap();
    while framed.running {
        fits("orchestrate", &framed);
        framed = world.tasks.orchestrate(framing()).await.unwrap();
    }
    assert_eq!(framed.task.status, "active", "{:?}", world.agents.answers.lock().unwrap());
    fits("orchestrate", &framed);
    let turn = run_step(&world.tasks, &id).await;
    fits("run_turn", &turn);
    assert_eq!(turn.status, "escalated", "{turn:?}");
    fits(
        "status",
        &world.tasks.status(TaskStatusRequest { task_id: id.clone(), wait_s: None }).await.unwrap(),
    );
    let mut offset = 0;
    loop {
        let page = world.tasks.result(TaskResultRequest { task_id: id.clone(), offset }).await.unwrap();
        fits("result", &page);
        match page.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    let mut offset = 0;
    loop {
        let page = world.tasks.log(TaskLogRequest { task_id: id.clone(), offset }).await.unwrap();
        fits("log", &page);
        match page.next_offset {
            Some(next) => offset = next,
            None => break,
        }
    }
    fits("list", &world.tasks.list(TaskListRequest::default()).await.unwrap());
    for artifact in ["brief", "step-1", "verdict-1", "handoff-1-1", "patch-1"] {
        let request = TaskArtifactRequest { task_id: id.clone(), artifact: artifact.to_owned(), offset: 0 };
        fits(artifact, &world.tasks.artifact(request).await.unwrap());
    }
}

fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_pipe_in_place_of_the_turns_holds_nothing_up() {
    let world =
        World::with(honest, &json!({}), |options| options.settings.budget.output_tokens = Some(10_000));
    let Some(world) = world else { return };
    let id = world.framed().await;
    make_pipe(&world.task_folder(&id).join("turns.jsonl"));
    let task = world.tasks.store().open(&id).unwrap();
    let page = tokio::task::spawn_blocking(move || task_report(&task));
    let wait = std::time::Duration::from_secs(60);
    assert!(tokio::time::timeout(wait, page).await.expect("it comes back").unwrap().is_ok());
    let request = TaskArtifactRequest { task_id: id.clone(), artifact: "turn-x".to_owned(), offset: 0 };
    let answer = tokio::time::timeout(wait, world.tasks.artifact(request)).await.expect("it comes back");
    assert_eq!(answer.unwrap_err().kind, TaskErrorKind::Damaged);
    let answer = tokio::time::timeout(wait, world.tasks.run_turn(run(&id))).await.expect("it comes back");
    assert_eq!(answer.unwrap_err().kind, TaskErrorKind::Damaged);
}

#[tokio::test]
async fn nothing_is_written_or_removed_by_a_link_in_a_task_folder() {
    let Some(world) = World::new(honest) else { return };
    for name in ["steps", "work", "checks"] {
        let created = world.tasks.create(nexus_tasks::TaskCreateRequest {
            test_command: Some(vec!["true".to_owned()]),
            ..world.request()
        });
        let id = created.await.unwrap().task_id;
        let framing = TaskOrchestrateRequest { task_id: id.clone(), ..Default::default() };
        world.tasks.orchestrate(framing).await.unwrap();
        let elsewhere = world.root.join(format!("precious-{name}"));
        fs::create_dir_all(elsewhere.join("kept")).unwrap();
        let place = world.task_folder(&id).join(name);
        let _ = fs::remove_dir_all(&place);
        symlink(&elsewhere, &place).unwrap();
        let error = world.tasks.run_turn(run(&id)).await.unwrap_err();
        assert_eq!(error.kind, TaskErrorKind::Damaged, "{name}: {error}");
        let names: Vec<_> =
            fs::read_dir(&elsewhere).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["kept"], "{name}");
    }
}

#[tokio::test]
async fn where_a_task_is_can_be_told_when_what_was_begun_cannot_be_put_back() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    let file = world.task_folder(&id).join("status.json");
    let text = fs::read_to_string(&file).unwrap();
    // As a server leaves it that was killed in mid-step.
    assert!(text.contains("\"begun\": 0"), "{text}");
    fs::write(&file, text.replace("\"begun\": 0", "\"begun\": 1")).unwrap();
    let work = world.task_folder(&id).join("work");
    let _ = fs::remove_dir_all(&work);
    fs::write(&work, "in the way").unwrap();
    let report = status(&world.tasks, &id).await;
    assert_eq!(report.status, "active");
    assert!(report.warnings[0].contains("work"), "{:?}", report.warnings);
    assert_eq!(world.tasks.run_turn(run(&id)).await.unwrap_err().kind, TaskErrorKind::Damaged);
}

#[tokio::test]
async fn paths_that_lead_out_of_the_project_are_refused_before_there_is_a_task() {
    let Some(world) = World::new(honest) else { return };
    symlink("/etc", world.project().join("out")).unwrap();
    let kept =
        ["../..", "/etc", ".git", ".", "", "out", "a\0b"].map(|path| (Some(vec![path.to_owned()]), None));
    let setups = [vec![], vec![String::new()], vec!["sh".to_owned(), "a\0b".to_owned()]];
    let setups = setups.map(|setup| (None, Some(vec![setup])));
    for (keep, setup) in kept.into_iter().chain(setups) {
        let request = nexus_tasks::TaskCreateRequest { keep, setup, ..world.request() };
        let asked = format!("{request:?}");
        let error = world.tasks.create(request).await.expect_err(&asked);
        assert_eq!(error.kind, TaskErrorKind::InvalidArgument, "{asked}");
    }
    assert!(world.tasks.list(TaskListRequest::default()).await.unwrap().tasks.is_empty());
}
