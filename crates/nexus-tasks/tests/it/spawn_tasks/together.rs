//! Two servers of one home at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use nexus_core::Clock;
use nexus_tasks::{TaskCancelRequest, TaskResultRequest, TaskRunTurnRequest};
use tokio::sync::Semaphore;

use super::kit::{Act, World, honest, log, orchestrate, run, run_step, status, walk};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_that_walk_one_task_run_every_step_once() {
    let Some(world) = World::new(honest) else { return };
    let other = world.another();
    let id = world.create().await.task_id;
    let (one, two) = tokio::join!(orchestrate(&world.tasks, &id), orchestrate(&other, &id));
    assert_eq!((one.status.as_str(), two.status.as_str()), ("active", "active"));
    assert_eq!(world.turns("orchestrate"), 1);
    let walking = async |tasks: &nexus_tasks::Tasks| {
        while let Ok(report) = tasks.run_turn(run(&id)).await {
            if report.status != "active" {
                break;
            }
        }
    };
    tokio::join!(walking(&world.tasks), walking(&other));
    assert_eq!(status(&other, &id).await.status, "complete");
    assert_eq!((world.turns("implement"), world.turns("review")), (4, 6));
    let result = other.result(TaskResultRequest { task_id: id, offset: 0 }).await.unwrap();
    assert_eq!(result.commits.len(), 3);
}

#[tokio::test]
async fn who_finds_the_step_held_elsewhere_waits_and_says_so() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let Some(world) = World::new(move |seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" {
            acts.insert(0, Act::Wait(Arc::clone(&held)));
        }
        acts
    }) else {
        return;
    };
    let id = world.framed().await;
    let shortly = |seconds| TaskRunTurnRequest { wait_s: Some(seconds), ..run(&id) };
    world.tasks.run_turn(shortly(0)).await.unwrap();
    world.until(|world| world.turns("implement") == 1).await;
    let other = world.another();
    let report = other.run_turn(shortly(1)).await.unwrap();
    assert!(report.running && report.progress.unwrap().contains("another process"));
    assert!(status(&other, &id).await.running);
    gate.add_permits(1);
    assert_eq!(run_step(&other, &id).await.step.unwrap().entry, 0);
    assert_eq!(world.turns("implement"), 1);
}

#[tokio::test]
async fn a_server_that_ends_in_mid_step_puts_it_back_and_the_next_one_does_it_anew() {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let Some(world) = World::new(move |seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" && seen.turn == 0 {
            acts.insert(1, Act::Wait(Arc::clone(&held)));
        }
        acts
    }) else {
        return;
    };
    let id = world.framed().await;
    world.tasks.run_turn(TaskRunTurnRequest { wait_s: Some(0), ..run(&id) }).await.unwrap();
    world
        .until(|world| world.agents.answers.lock().unwrap().iter().any(|(tool, _)| tool == "write_file"))
        .await;
    world.tasks.shutdown().await;
    for folder in std::fs::read_dir(world.task_folder(&id).join("work")).unwrap() {
        assert!(!folder.unwrap().path().join("src/one.txt").exists(), "it was put back");
    }
    let next = world.another();
    let offered = status(&next, &id).await;
    assert!(!offered.running && offered.next.contains("interrupted"), "{offered:?}");
    assert_eq!(walk(&next, &id).await.last().unwrap().status, "complete");
    let events = log(&next, &id).await;
    assert_eq!(events.iter().filter(|(kind, _)| kind == "step_interrupted").count(), 1);
}

#[tokio::test]
async fn a_step_that_another_server_runs_is_cancelled_and_put_back() {
    let Some(world) = World::new(|seen| {
        let mut acts = honest(seen);
        if seen.phase == "implement" {
            acts.insert(1, Act::Hang);
        }
        acts
    }) else {
        return;
    };
    let id = world.framed().await;
    let running = TaskRunTurnRequest { wait_s: Some(0), ..run(&id) };
    assert!(world.tasks.run_turn(running).await.unwrap().running);
    world
        .until(|world| world.agents.answers.lock().unwrap().iter().any(|(tool, _)| tool == "write_file"))
        .await;
    let other = world.another();
    let cancelled = other.cancel(TaskCancelRequest { task_id: id.clone() }).await.unwrap();
    assert_eq!(cancelled.status, "cancelled");
    assert!(!world.task_folder(&id).join("work").exists());
    // Whoever ran it is told, and runs nothing of it any more.
    assert_eq!(status(&world.tasks, &id).await.status, "cancelled");
    assert_eq!((world.turns("implement"), world.turns("review")), (1, 0));
    let result = other.result(TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
    assert_eq!((result.commits.len(), result.files.len()), (0, 0));
    let ends = log(&other, &id).await.into_iter().filter(|(kind, _)| kind == "cancelled").count();
    assert_eq!(ends, 1);
}

/// A clock that goes back an hour each time that it is asked.
#[derive(Debug, Default)]
struct Backwards(AtomicU32);

impl Clock for Backwards {
    fn now(&self) -> SystemTime {
        let hours = u64::from(self.0.fetch_add(1, Ordering::SeqCst));
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 - 3_600 * hours)
    }
}

#[tokio::test]
async fn a_clock_that_goes_back_changes_no_order_and_hinders_nothing() {
    let change = |options: &mut nexus_tasks::TasksOptions| options.clock = Arc::new(Backwards::default());
    let Some(world) = World::with(honest, &serde_json::json!({}), change) else { return };
    let id = world.framed().await;
    let entries: Vec<_> =
        walk(&world.tasks, &id).await.into_iter().filter_map(|report| Some(report.step?.entry)).collect();
    assert_eq!(entries, [0, 2, 5]);
    let result = world.tasks.result(TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
    assert_eq!((result.status.as_str(), result.commits.len()), ("complete", 3));
    let settled: Vec<_> = log(&world.tasks, &id)
        .await
        .into_iter()
        .filter(|(kind, _)| kind == "step_settled")
        .map(|(_, data)| data["attempt"].as_u64().unwrap())
        .collect();
    assert_eq!(settled, [1, 2, 3]);
}
