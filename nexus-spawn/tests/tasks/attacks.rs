//! Callers, agents and folders that mean harm.

use std::{fs, os::unix::fs::symlink, time::Duration};

use nexus_spawn::{
    TaskArtifactRequest, TaskCancelRequest, TaskListRequest, TaskLogRequest, TaskOrchestrateRequest,
    TaskResultRequest, TaskStatusRequest,
};
use serde::Serialize;
use serde_json::json;

use crate::kit::{Act, Seen, World, brief, honest, run, verdict, walk};

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
        "out_of_scope": vec![text.clone(); 64],
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
    let request = nexus_spawn::TaskCreateRequest {
        goal: "\"".repeat(16_000),
        labels,
        context: Some("\"".repeat(60_000)),
        ..world.request()
    };
    let created = world.tasks.create(request).await.unwrap();
    fits("create", &created);
    let id = created.task_id;
    let framing = TaskOrchestrateRequest { task_id: id.clone(), ..Default::default() };
    let framed = world.tasks.orchestrate(framing).await.unwrap();
    assert_eq!(framed.task.status, "active", "{:?}", world.agents.answers.lock().unwrap());
    fits("orchestrate", &framed);
    let turn = world.tasks.run_turn(run(&id)).await.unwrap();
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
