//! From a goal to a brief, by calls that may be repeated.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use nexus_core::ErrorKind;
use nexus_tasks::{
    TaskArtifactRequest, TaskCancelRequest, TaskErrorKind, TaskOrchestrateRequest, TaskReopenRequest,
    TaskStatusRequest,
};
use serde_json::json;
use tokio::sync::Semaphore;

use super::kit::{Act, World, brief, honest, log, orchestrate, run, status, three_steps};

fn ask(id: &str, wait_s: u64) -> TaskOrchestrateRequest {
    TaskOrchestrateRequest { task_id: id.to_owned(), answers: None, wait_s: Some(wait_s) }
}

#[tokio::test]
async fn a_goal_becomes_a_plan_that_the_caller_is_shown() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    let report = status(&world.tasks, &id).await;
    assert_eq!(report.plan.len(), 7, "four pieces of work, three reviews");
    assert_eq!(report.cursor.unwrap().entry, 0);
    assert_eq!((report.criteria[0].id.as_str(), report.criteria[0].judgement.as_str()), ("files", "open"));
    // Asked again, it is told again, and nothing runs.
    assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
    assert_eq!(world.turns("orchestrate"), 1);
    let artifact = TaskArtifactRequest { task_id: id.clone(), artifact: "brief".to_owned(), offset: 0 };
    assert!(world.tasks.artifact(artifact).await.unwrap().text.contains("Files are missing."));
    let events = log(&world.tasks, &id).await;
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["created", "configured", "framing_began", "turn_ended", "framing_ended"]);
    assert_eq!(events[3].1["vendor"], "first-vendor");
    assert_eq!(report.spent.output_tokens, 100);
}

#[tokio::test]
async fn calls_that_are_repeated_join_what_runs_and_start_nothing() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let Some(world) = World::new(move |seen| {
        let mut acts = vec![Act::Wait(Arc::clone(&held))];
        acts.extend(honest(seen));
        acts
    }) else {
        return;
    };
    let id = world.create().await.task_id;
    for _ in 0..3 {
        let framed = world.tasks.orchestrate(ask(&id, 0)).await.unwrap();
        assert!(framed.running && framed.task.running);
        assert!(framed.task.next.contains("again"), "{}", framed.task.next);
    }
    let error = world.tasks.run_turn(run(&id)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::WrongStatus);
    assert!(error.advice.contains("task_orchestrate"));
    let (one, other) = tokio::join!(world.tasks.orchestrate(ask(&id, 45)), async {
        gate.add_permits(1);
        world.tasks.orchestrate(ask(&id, 45)).await
    });
    assert!([one, other].into_iter().all(|framed| framed.unwrap().task.status == "active"));
    assert_eq!(world.turns("orchestrate"), 1);
}

#[tokio::test]
async fn questions_are_answered_by_calling_again() {
    let Some(world) = World::new(|seen| match seen.turn {
        0 => vec![Act::Call("request_clarification", json!({ "questions": ["Which?", "Where?"] }))],
        _ => vec![Act::Call("submit_brief", three_steps())],
    }) else {
        return;
    };
    let id = world.create().await.task_id;
    let report = orchestrate(&world.tasks, &id).await;
    assert_eq!((report.status.as_str(), report.questions.len()), ("clarification_needed", 2));
    // Without answers it is told again.
    assert_eq!(orchestrate(&world.tasks, &id).await.questions, ["Which?", "Where?"]);
    let answer = |answers: &[&str]| TaskOrchestrateRequest {
        task_id: id.clone(),
        answers: Some(answers.iter().map(|answer| (*answer).to_owned()).collect()),
        wait_s: None,
    };
    let error = world.tasks.orchestrate(answer(&["All."])).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::InvalidArgument);
    let framed = world.tasks.orchestrate(answer(&["All.", "Here."])).await.unwrap();
    assert_eq!(framed.task.status, "active");
    let seen = world.agents.seen.lock().unwrap()[1].clone();
    assert!(seen.prompt.contains("> Where?") && seen.prompt.contains("> Here."), "{}", seen.prompt);
}

#[tokio::test]
async fn the_third_brief_that_breaks_a_rule_escalates_and_reopening_begins_anew() {
    let Some(world) = World::new(|seen| match seen.turn {
        0 => vec![Act::Call("submit_brief", brief(&[("../out", None)])); 3]
            .into_iter()
            .map(|_| {
                let mut draft = three_steps();
                draft["write"] = json!(["../out"]);
                Act::Call("submit_brief", draft)
            })
            .collect(),
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.create().await.task_id;
    let report = orchestrate(&world.tasks, &id).await;
    assert_eq!(report.status, "escalated");
    assert!(report.reason.unwrap().contains("invalid briefs") && report.error.is_none());
    let refused = log(&world.tasks, &id).await.iter().filter(|(kind, _)| kind == "brief_refused").count();
    assert_eq!(refused, 3);
    assert_eq!(world.tasks.run_turn(run(&id)).await.unwrap_err().kind, TaskErrorKind::WrongStatus);
    let reopen = TaskReopenRequest {
        task_id: id.clone(),
        note: "Stay in src.".to_owned(),
        ..TaskReopenRequest::default()
    };
    assert_eq!(world.tasks.reopen(reopen).await.unwrap().status, "framing");
    assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
    assert!(world.agents.seen.lock().unwrap()[1].prompt.contains("Stay in src."));
}

#[tokio::test]
async fn a_failure_of_the_infrastructure_escalates_with_the_error() {
    let Some(world) = World::new(|seen| match seen.turn {
        0 => vec![Act::Fail(ErrorKind::Unauthenticated)],
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.create().await.task_id;
    let report = orchestrate(&world.tasks, &id).await;
    assert_eq!(report.status, "escalated");
    assert!(report.error.unwrap().contains("alpha"));
    let reopen = TaskReopenRequest {
        task_id: id.clone(),
        note: "Signed in again.".to_owned(),
        ..TaskReopenRequest::default()
    };
    world.tasks.reopen(reopen).await.unwrap();
    assert_eq!(orchestrate(&world.tasks, &id).await.status, "active");
}

#[tokio::test]
async fn cancelling_stops_the_orchestrator_here_and_in_another_process() {
    for elsewhere in [false, true] {
        let Some(world) = World::new(|_| vec![Act::Hang]) else { return };
        let id = world.create().await.task_id;
        assert!(world.tasks.orchestrate(ask(&id, 0)).await.unwrap().running);
        world.until(|world| world.turns("orchestrate") > 0).await;
        let other = if elsewhere { world.another() } else { world.tasks.clone() };
        let cancelled = other.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
        assert_eq!(cancelled.status, "cancelled");
        let again = other.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
        assert_eq!(again.status, "cancelled");
        let report =
            world.tasks.status(TaskStatusRequest { task_id: id.clone(), wait_s: None }).await.unwrap();
        assert_eq!((report.status.as_str(), report.running), ("cancelled", false));
    }
}

#[tokio::test]
async fn a_shutdown_interrupts_and_the_next_server_begins_anew() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let Some(world) = World::new(move |seen| match hanging.load(Ordering::SeqCst) {
        true => vec![Act::Hang],
        false => honest(seen),
    }) else {
        return;
    };
    let id = world.create().await.task_id;
    let waiting = tokio::spawn({
        let (tasks, request) = (world.tasks.clone(), ask(&id, 45));
        async move { tasks.orchestrate(request).await }
    });
    world.until(|world| world.turns("orchestrate") > 0).await;
    world.tasks.shutdown().await;
    assert_eq!(waiting.await.unwrap().unwrap_err().kind, TaskErrorKind::Interrupted);
    assert_eq!(world.tasks.orchestrate(ask(&id, 45)).await.unwrap_err().kind, TaskErrorKind::Interrupted);
    hangs.store(false, Ordering::SeqCst);
    assert_eq!(orchestrate(&world.another(), &id).await.status, "active");
}
