//! Steps: each row of the status table, through the calls of the caller.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use nexus_core::ErrorKind;
use nexus_tasks::{
    EntryProgress, LandingOutcome, TaskArtifactRequest, TaskCancelRequest, TaskErrorKind, TaskLandRequest,
    TaskReopenRequest, TaskResultRequest, TaskRunTurnRequest,
};
use serde_json::json;
use tokio::sync::Semaphore;

use super::kit::{
    Act, Seen, World, files, honest, log, run, run_entry, run_step, status, verdict, walk, work,
};

fn reopen(id: &str, from_entry: Option<usize>) -> TaskReopenRequest {
    TaskReopenRequest {
        task_id: id.to_owned(),
        note: "Mind the signs.".to_owned(),
        from_entry,
        ..TaskReopenRequest::default()
    }
}

/// Agents that do what they are asked, but for the reviews of one file, each with its decision.
fn judging(path: &'static str, decisions: &'static [&'static str]) -> impl Fn(&Seen) -> Vec<Act> {
    let judged = std::sync::Mutex::new(0);
    move |seen| {
        if seen.phase != "review" || files(seen)[0] != path {
            return honest(seen);
        }
        let mut judged = judged.lock().unwrap();
        // Both seats of a review decide alike.
        let decision = decisions.get(*judged / 2).copied().unwrap_or("advance");
        *judged += 1;
        vec![Act::Call("submit_verdict", verdict(seen, decision))]
    }
}

#[tokio::test]
async fn a_task_is_walked_to_its_end_and_each_step_is_a_commit() {
    let Some(world) = World::new(honest) else { return };
    let id = world.framed().await;
    let reports = walk(&world.tasks, &id).await;
    let ends: Vec<(usize, &str)> = reports
        .iter()
        .map(|report| report.step.as_ref().map(|step| (step.entry, step.end.as_str())).unwrap())
        .collect();
    assert_eq!(ends, [(0, "advanced"), (2, "advanced"), (5, "advanced")], "{reports:#?}");
    assert_eq!(reports[2].status, "complete");
    assert_eq!(reports[1].step.as_ref().unwrap().attempts[0].units.len(), 2);
    let votes = &reports[0].step.as_ref().unwrap().attempts[0].votes;
    assert_eq!(
        votes.iter().map(|vote| vote.vendor.as_str()).collect::<Vec<_>>(),
        ["first-vendor", "second-vendor"]
    );

    // Copies of the project are not kept of what has ended.
    let folder = world.tasks.store().open(&id).unwrap().folder().to_owned();
    assert!(!folder.join("work").exists() && !folder.join("checks").exists());

    let result = world.tasks.result(TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
    assert_eq!(result.commits.len(), 3);
    let made = ["added src/last.txt", "added src/left.txt", "added src/one.txt", "added src/right.txt"];
    assert_eq!(result.files, made);
    assert_eq!(result.criteria[0].judgement, "pass");
    let report = status(&world.tasks, &id).await;
    assert!(report.plan.iter().all(|entry| entry.progress == EntryProgress::Done), "{:?}", report.plan);
    // One orchestrator, four pieces of work, three reviews of two.
    let events = log(&world.tasks, &id).await;
    let turns: Vec<_> = events.iter().filter(|(kind, _)| kind == "turn_ended").collect();
    assert_eq!(turns.len(), 1 + 4 + 6);
    assert_eq!(report.spent.turns, 11);
    for (_, turn) in &turns {
        assert!(turn["vendor"].is_string() && turn["turn"].is_string(), "{turn}");
    }
    // The plain folder is not touched; there is a patch.
    let landing = world.tasks.land(TaskLandRequest::new(&id)).await.unwrap();
    assert_eq!((landing.outcome, landing.patch.as_deref()), (LandingOutcome::Patch, Some("patch")));
    assert!(!world.project().join("src/one.txt").exists());
    for artifact in ["brief", "patch", "step-1", "patch-2", "verdict-1", "handoff-2-2"] {
        let request = TaskArtifactRequest { task_id: id.clone(), artifact: artifact.to_owned(), offset: 0 };
        let page = world.tasks.artifact(request).await.unwrap();
        assert!(!page.text.is_empty() && serde_json::to_vec(&page).unwrap().len() <= 9_000, "{artifact}");
    }
    let turn = turns[1].1["turn"].as_str().unwrap();
    let request = TaskArtifactRequest { task_id: id.clone(), artifact: format!("turn-{turn}"), offset: 0 };
    assert!(world.tasks.artifact(request).await.is_ok());
    assert_eq!(world.tasks.run_turn(run(&id)).await.unwrap_err().kind, TaskErrorKind::WrongStatus);
}

#[tokio::test]
async fn a_step_goes_on_over_its_retries_and_tells_of_all() {
    let Some(world) = World::new(judging("src/one.txt", &["retry", "retry"])) else { return };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    let step = report.step.unwrap();
    assert_eq!(step.end, "advanced");
    let ends: Vec<&str> = step.attempts.iter().map(|attempt| attempt.end.as_str()).collect();
    assert_eq!(ends, ["retried", "retried", "advanced"]);
    assert!(step.commit.is_some());
    let prompts: Vec<String> = world
        .agents
        .seen
        .lock()
        .unwrap()
        .iter()
        .filter(|seen| seen.phase == "implement")
        .map(|seen| seen.brief.clone())
        .collect();
    assert!(!prompts[0].contains("look again") && prompts[1].contains("look again"), "{}", prompts[1]);
}

#[tokio::test]
async fn too_many_retries_escalate_and_a_reopening_goes_on_with_the_work_and_the_note() {
    let Some(world) = World::new(judging("src/one.txt", &["retry", "retry", "retry"])) else { return };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!((report.status.as_str(), report.step.unwrap().attempts.len()), ("escalated", 3));
    let reopened = world.tasks.reopen(reopen(&id, None)).await.unwrap();
    let cursor = reopened.cursor.unwrap();
    assert_eq!((cursor.entry, cursor.attempt, cursor.retries), (0, 4, 0));
    let reports = walk(&world.tasks, &id).await;
    assert_eq!((reports.len(), reports[2].status.as_str()), (3, "complete"));
    let seen = world.agents.seen.lock().unwrap();
    let fourth = seen.iter().filter(|seen| seen.phase == "implement").nth(3).unwrap();
    assert!(fourth.brief.contains("Mind the signs."), "{}", fourth.brief);
}

#[tokio::test]
async fn an_escalating_verdict_and_a_blocked_agent_end_the_task() {
    let Some(world) = World::new(judging("src/one.txt", &["escalate"])) else { return };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!((report.status.as_str(), report.step.unwrap().end.as_str()), ("escalated", "escalated"));

    let blocked = |seen: &Seen| match seen.phase {
        "implement" if seen.turn == 0 => {
            let mut acts = work(seen, "step_done");
            let action = json!({ "blocked": { "reason": "no server" } });
            acts[1] = Act::Call("submit_handoff", json!({ "claims": [{ "text": "x" }], "action": action }));
            acts
        }
        _ => honest(seen),
    };
    let Some(world) = World::new(blocked) else { return };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!(report.status, "blocked");
    assert!(report.step.unwrap().reason.unwrap().contains("no server"));
    assert_eq!(world.turns("review"), 0);
    world.tasks.reopen(reopen(&id, None)).await.unwrap();
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
}

#[tokio::test]
async fn complete_ends_the_task_and_lists_what_is_left_over() {
    let Some(world) = World::new(|seen| match seen.phase {
        "implement" => work(seen, "complete"),
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!((report.status.as_str(), report.step.unwrap().end.as_str()), ("complete", "completed"));
    let plan = status(&world.tasks, &id).await.plan;
    assert_eq!(plan[1].progress, EntryProgress::Done);
    assert!(plan[2..].iter().all(|entry| entry.progress == EntryProgress::NotNeeded), "{plan:?}");
    // Reopened, it goes on with the last entry that changes files.
    assert_eq!(world.tasks.reopen(reopen(&id, None)).await.unwrap().cursor.unwrap().entry, 5);
}

#[tokio::test]
async fn a_failure_of_the_infrastructure_escalates_and_after_a_new_login_it_goes_on() {
    let Some(world) = World::new(|seen| match (seen.phase, seen.turn) {
        ("implement", 0) => vec![Act::Fail(ErrorKind::Unauthenticated)],
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    let report = run_step(&world.tasks, &id).await;
    assert_eq!(report.status, "escalated");
    assert!(report.step.unwrap().error.is_some());
    world.tasks.reopen(reopen(&id, None)).await.unwrap();
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
}

/// Agents that wait at their work until they are let go on.
fn waiting(gate: &Arc<Semaphore>) -> impl Fn(&Seen) -> Vec<Act> + use<> {
    let gate = Arc::clone(gate);
    move |seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" {
            acts.insert(1, Act::Wait(Arc::clone(&gate)));
        }
        acts
    }
}

fn without_waiting(id: &str) -> TaskRunTurnRequest {
    TaskRunTurnRequest { wait_s: Some(0), ..run(id) }
}

#[tokio::test]
async fn calls_join_the_running_step_and_a_lost_answer_is_told_before_anything_new_starts() {
    let gate = Arc::new(Semaphore::new(0));
    let Some(world) = World::new(waiting(&gate)) else { return };
    let id = world.framed().await;
    for _ in 0..3 {
        let report = world.tasks.run_turn(without_waiting(&id)).await.unwrap();
        assert!(report.running && report.step.is_none() && report.next.contains("again"));
    }
    world.until(|world| world.turns("implement") == 1).await;
    let progress = world.tasks.progress(&id).unwrap();
    assert!(progress.borrow().starts_with("step 1 of 3"), "{}", *progress.borrow());
    let error = world.tasks.run_turn(run_entry(&id, 5)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::WrongStatus);
    assert_eq!(world.tasks.reopen(reopen(&id, None)).await.unwrap_err().kind, TaskErrorKind::InUse);
    gate.add_permits(1);
    // Nobody waits for the answer.
    world.until(|world| world.tasks.progress(&id).is_none()).await;
    let told = run_step(&world.tasks, &id).await;
    assert_eq!(told.step.unwrap().entry, 0);
    assert_eq!(world.turns("implement"), 1, "nothing was started");
    // It can be asked for again, by its entry or its review's.
    for entry in [0, 1] {
        assert_eq!(world.tasks.run_turn(run_entry(&id, entry)).await.unwrap().step.unwrap().entry, 0);
    }
    let error = world.tasks.run_turn(run_entry(&id, 5)).await.unwrap_err();
    assert_eq!(error.kind, TaskErrorKind::WrongStatus);
    assert_eq!(
        world.tasks.run_turn(run_entry(&id, 99)).await.unwrap_err().kind,
        TaskErrorKind::InvalidArgument
    );
    assert_eq!(world.turns("implement"), 1);
    gate.add_permits(2);
    assert_eq!(run_step(&world.tasks, &id).await.step.unwrap().entry, 2);
}

#[tokio::test]
async fn cancelling_stops_a_step_and_reopening_does_it_anew() {
    let hangs = Arc::new(AtomicBool::new(true));
    let hanging = Arc::clone(&hangs);
    let Some(world) = World::new(move |seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" && hanging.load(Ordering::SeqCst) {
            acts.insert(1, Act::Hang);
        }
        acts
    }) else {
        return;
    };
    let id = world.framed().await;
    world.tasks.run_turn(without_waiting(&id)).await.unwrap();
    world.until(|world| world.turns("implement") == 1).await;
    let cancelled = world.tasks.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
    assert_eq!((cancelled.status.as_str(), cancelled.running), ("cancelled", false));
    assert_eq!(world.tasks.run_turn(run(&id)).await.unwrap_err().kind, TaskErrorKind::WrongStatus);
    hangs.store(false, Ordering::SeqCst);
    world.tasks.reopen(reopen(&id, None)).await.unwrap();
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    let result = world.tasks.result(TaskResultRequest { task_id: id, offset: 0 }).await.unwrap();
    assert_eq!(result.commits.len(), 3);
}

#[tokio::test]
async fn a_step_that_waits_for_a_vendor_says_so_everywhere_and_can_be_cancelled() {
    let Some(world) = World::new(|seen| match seen.phase {
        "implement" => vec![Act::Refuse(ErrorKind::UsageLimit, Duration::from_secs(3600))],
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    world.tasks.run_turn(without_waiting(&id)).await.unwrap();
    let waiting = async {
        loop {
            let report = status(&world.tasks, &id).await;
            if let [wait] = &report.waiting[..] {
                break (report.clone(), wait.clone());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (report, wait) = tokio::time::timeout(Duration::from_secs(60), waiting).await.unwrap();
    assert!(report.running && report.status == "active", "{report:?}");
    assert_eq!(wait.agent, "unit 1");
    assert!(!wait.backends.is_empty() && !wait.reason.is_empty(), "{wait:?}");
    let progress = world.tasks.progress(&id).unwrap();
    assert!(progress.borrow().contains(&format!("waits until {}", wait.until)), "{}", *progress.borrow());
    let joined = world.tasks.run_turn(without_waiting(&id)).await.unwrap();
    assert_eq!(joined.waiting, [wait]);
    let cancelled = world.tasks.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
    assert!(cancelled.waiting.is_empty() && !cancelled.running, "{cancelled:?}");
    assert_eq!(cancelled.status, "cancelled");
}
