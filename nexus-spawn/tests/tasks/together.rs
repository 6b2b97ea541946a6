//! Two servers of one home at once.

use std::sync::Arc;

use nexus_spawn::{TaskResultRequest, TaskRunTurnRequest};
use tokio::sync::Semaphore;

use crate::kit::{Act, World, honest, log, orchestrate, run, status, walk};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_that_walk_one_task_run_every_step_once() {
    let Some(world) = World::new(honest) else { return };
    let other = world.another();
    let id = world.create().await.task_id;
    let (one, two) = tokio::join!(orchestrate(&world.tasks, &id), orchestrate(&other, &id));
    assert_eq!((one.status.as_str(), two.status.as_str()), ("active", "active"));
    assert_eq!(world.turns("orchestrate"), 1);
    let walking = async |tasks: &nexus_spawn::Tasks| {
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
    assert_eq!(other.run_turn(run(&id)).await.unwrap().step.unwrap().entry, 0);
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
