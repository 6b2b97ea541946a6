//! What follows a completion: also where its server is killed before it is done.

use std::{
    error::Error,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use nexus_core::{BuildContext, Registry};
use nexus_router::Router;
use nexus_tasks::{CompletedTask, TaskErrorKind, TaskMemory, TaskReopenRequest, TaskResultRequest, Tasks};
use serde_json::{Value, json};

use super::kit::{Act, CopyingClock, World, brief, honest, options, router, run, run_step, status, walk};

fn with_cartographer() -> Value {
    json!({ "cartographer": {
        "tier": "operations", "phase": "cartographer", "group": "first", "model": { "exact": "any" }, "effort": "max",
    } })
}

/// Counts what it is told, and is told nothing until it is let.
#[derive(Debug, Default)]
struct Counter {
    told: AtomicUsize,
    hangs: AtomicBool,
}

#[async_trait]
impl TaskMemory for Counter {
    async fn recall(&self, _: &Path, _: &str) -> Result<Option<String>, Box<dyn Error + Send + Sync>> {
        Ok(None)
    }

    async fn remember(&self, _: &CompletedTask) -> Result<(), Box<dyn Error + Send + Sync>> {
        while self.hangs.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.told.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

/// A world whose cartographer hangs the first time, with its memory.
fn world() -> Option<(World, Arc<Counter>)> {
    let memory = Arc::new(Counter::default());
    let of_options = Arc::clone(&memory) as Arc<dyn TaskMemory>;
    let script = |seen: &crate::spawn_tasks::kit::Seen| match (seen.phase, seen.turn) {
        ("orchestrate", _) => vec![Act::Call("submit_brief", brief(&[("src/one.txt", None)]))],
        ("cartographer", 0) => vec![Act::Hang],
        _ => honest(seen),
    };
    let world = World::with(script, &with_cartographer(), |options| options.memory = of_options)?;
    Some((world, memory))
}

fn server(world: &World, memory: &Arc<Counter>) -> Tasks {
    let mut options = options(&world.root);
    options.memory = Arc::clone(memory) as Arc<dyn TaskMemory>;
    Tasks::new(router(&world.agents, &with_cartographer()), options)
}

/// Tasks that are only looked at.
fn onlooker(world: &World) -> Tasks {
    let context = BuildContext::in_home("home");
    Tasks::new(Router::from_value(json!({}), Registry::new(), context).unwrap(), options(&world.root))
}

async fn to_do(tasks: &Tasks, id: &str) -> Vec<String> {
    status(tasks, id).await.to_do
}

async fn until_nothing_is_to_do(tasks: &Tasks, id: &str) {
    let waiting = async {
        while !to_do(tasks, id).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting).await.expect("it is done");
}

#[test]
fn a_map_that_a_killed_server_was_drawing_is_drawn_by_the_next_one_and_nothing_is_remembered_twice() {
    let Some((world, memory)) = world() else { return };
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let id = first.block_on(async {
        let id = world.framed().await;
        assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
        world.until(|world| world.turns("cartographer") == 1).await;
        id
    });
    // All of it ends at once, wherever it is.
    first.shutdown_background();
    let next = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    next.block_on(async {
        assert_eq!(memory.told.load(Ordering::SeqCst), 1);
        // Who has no agents says what is left, and leaves it.
        for _ in 0..2 {
            let left = to_do(&onlooker(&world), &id).await;
            assert!(left.len() == 1 && left[0].contains("map of the project"), "{left:?}");
        }
        // Looking at it begins no turn, and leaves nothing of what was copied.
        let next = server(&world, &memory);
        for _ in 0..3 {
            assert_eq!(to_do(&next, &id).await.len(), 1);
        }
        world.until(|world| !world.task_folder(&id).join("map").exists()).await;
        next.shutdown().await;
        assert_eq!(world.turns("cartographer"), 1);
        let next = server(&world, &memory);
        assert_eq!(next.run_turn(run(&id)).await.unwrap_err().kind, TaskErrorKind::WrongStatus);
        until_nothing_is_to_do(&next, &id).await;
        assert_eq!(world.turns("cartographer"), 2);
        assert_eq!(to_do(&server(&world, &memory), &id).await, [""; 0]);
        assert_eq!(world.turns("cartographer"), 2);
        assert_eq!(memory.told.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn what_a_killed_server_had_not_yet_remembered_is_remembered_by_the_next_one_that_works() {
    let Some((world, memory)) = world() else { return };
    memory.hangs.store(true, Ordering::SeqCst);
    let first = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let id = first.block_on(async {
        let id = world.framed().await;
        walk(&world.tasks, &id).await;
        assert_eq!(to_do(&onlooker(&world), &id).await.len(), 2);
        id
    });
    first.shutdown_background();
    memory.hangs.store(false, Ordering::SeqCst);
    let next = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    next.block_on(async {
        let tasks = server(&world, &memory);
        // The work on another task is what begins it.
        let other = tasks.create(world.request()).await.unwrap().task_id;
        assert_eq!(to_do(&onlooker(&world), &id).await.len(), 2);
        crate::spawn_tasks::kit::orchestrate(&tasks, &other).await;
        world.until(|world| world.turns("cartographer") == 1).await;
        assert_eq!(memory.told.load(Ordering::SeqCst), 1);
        // The map is not drawn while the server ends, and stays to do.
        tasks.shutdown().await;
        assert_eq!(to_do(&onlooker(&world), &id).await.len(), 1);
    });
}

#[tokio::test]
async fn what_follows_a_completion_is_dropped_where_the_task_is_reopened() {
    let Some((world, memory)) = world() else { return };
    let id = world.framed().await;
    walk(&world.tasks, &id).await;
    world.until(|world| world.turns("cartographer") == 1).await;
    world.tasks.shutdown().await;
    let tasks = server(&world, &memory);
    let note =
        TaskReopenRequest { task_id: id.clone(), note: "Again.".to_owned(), ..TaskReopenRequest::default() };
    assert_eq!(tasks.reopen(note).await.unwrap().to_do, [""; 0]);
    run_step(&tasks, &id).await;
    assert_eq!(world.turns("implement"), 2);
    // What another attempt came to is no completion.
    assert_eq!(to_do(&tasks, &id).await, [""; 0]);
    assert_eq!((memory.told.load(Ordering::SeqCst), world.turns("cartographer")), (1, 1));
}

#[tokio::test]
async fn what_follows_is_done_where_the_last_step_was_decided_and_its_server_killed() {
    for is_ref_moved in [true, false] {
        let memory = Arc::new(Counter::default());
        let of_options = Arc::clone(&memory) as Arc<dyn TaskMemory>;
        let script = |seen: &crate::spawn_tasks::kit::Seen| match seen.phase {
            "orchestrate" => vec![Act::Call("submit_brief", brief(&[("src/one.txt", None)]))],
            _ => honest(seen),
        };
        let world = World::with(script, &with_cartographer(), |options| {
            options.clock = CopyingClock::of(options);
            options.memory = of_options;
        });
        let Some(world) = world else { return };
        let id = world.framed().await;
        assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
        until_nothing_is_to_do(&world.tasks, &id).await;
        world.cut_off(&id).await;
        let next = server(&world, &memory);
        let task = next.store().open(&id).unwrap();
        assert!(task.data().unwrap().1.intent.is_some());
        {
            let tree = task.tree().unwrap();
            let (head, base) = (tree.read_ref("head").unwrap(), tree.base().commit.clone());
            if !is_ref_moved && head.as_ref() != Some(&base) {
                tree.move_ref("head", head.as_ref(), &base).unwrap();
            }
        }
        assert!(world.task_folder(&id).join("work").exists());
        let report = run_step(&next, &id).await;
        assert_eq!(report.status, "complete");
        let result = next.result(TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
        assert_eq!(result.commits.len(), 1);
        let (again, agents) = (Arc::clone(&memory), |world: &World| world.turns("cartographer"));
        world.until(|world| again.told.load(Ordering::SeqCst) == 2 && agents(world) == 2).await;
        let left = |name: &str| world.task_folder(&id).join(name).exists();
        world.until(|_| task.data().unwrap().1.follow_ups.is_empty()).await;
        assert_eq!(["work", "checks", "map"].map(left), [false; 3]);
        assert_eq!((world.turns("implement"), world.turns("review")), (1, 2), "no agent works again");
        next.shutdown().await;
    }
}

#[tokio::test]
async fn nothing_is_remembered_twice_where_that_cannot_be_noted_the_first_time() {
    let Some((world, memory)) = world() else { return };
    memory.hangs.store(true, Ordering::SeqCst);
    let id = world.framed().await;
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    // The status can be read, and nobody can write it.
    let lock = world.task_folder(&id).join(".lock");
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    memory.hangs.store(false, Ordering::SeqCst);
    world.until(|_| memory.told.load(Ordering::SeqCst) == 1).await;
    let is_free = |world: &World| {
        let path = world.task_folder(&id).join(".follow-ups");
        std::fs::File::open(path).unwrap().try_lock().is_ok()
    };
    world.until(is_free).await;
    assert_eq!(to_do(&onlooker(&world), &id).await.len(), 2);
    std::fs::remove_dir(&lock).unwrap();
    world.tasks.run_turn(crate::spawn_tasks::kit::run_entry(&id, 0)).await.unwrap();
    world.until(|world| world.turns("cartographer") == 1).await;
    assert_eq!(memory.told.load(Ordering::SeqCst), 1);
    world.tasks.shutdown().await;
}
