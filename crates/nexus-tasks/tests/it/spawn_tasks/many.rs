//! Many tasks at once in one server: what each costs does not grow with their number.

use std::{
    env, fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use nexus_testkit::{child_test, effort};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::kit::{Act, World, files, has_git, honest, run, status, three_steps, walk, work};

const COUNT: &str = "NEXUS_TEST_TASKS_AT_ONCE";
/// How often a status is asked for while all tasks are in mid-step.
const STATUS_CALLS: usize = 100;

/// Processor time of this program, and of the programs that it waited for. Source: proc(5), in ticks of 10 ms.
fn processor_time() -> (Duration, Duration) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // The first of these fields is the third of the line.
    let ticks: Vec<u64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let time = |at: usize| Duration::from_millis(10 * (ticks[at - 3] + ticks[at - 2]));
    (time(14), time(16))
}

/// Resident memory in KiB: now, and at its peak.
fn resident() -> (u64, u64) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Walks tasks at once to their ends and prints what that took. Run as a program of its own, whose memory and time are no other
/// test's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_at_once_in_a_program_of_their_own() {
    let Some(count) = env::var(COUNT).ok().and_then(|count| count.parse::<usize>().ok()) else { return };
    let (gate, held) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (waited_for, waiting) = (Arc::clone(&gate), Arc::clone(&held));
    let world = World::new(move |seen| {
        let mut acts = honest(seen);
        // The second step, in which two are at work.
        if seen.phase == "implement" && files(seen)[0] == "src/left.txt" {
            waiting.fetch_add(1, Ordering::SeqCst);
            acts.insert(1, Act::Wait(Arc::clone(&waited_for)));
        }
        acts
    })
    .expect("there is git");
    let before = resident();
    let began = Instant::now();
    let walking = {
        let tasks = world.tasks.clone();
        let request = world.request();
        tokio::spawn(async move {
            let one = async || {
                let id = tasks.create(request.clone()).await.unwrap().task_id;
                crate::spawn_tasks::kit::orchestrate(&tasks, &id).await;
                assert_eq!(walk(&tasks, &id).await.last().unwrap().status, "complete");
                id
            };
            join_all((0..count).map(|_| one())).await
        })
    };
    let came = Instant::now();
    while held.load(Ordering::SeqCst) < count {
        assert!(
            came.elapsed() < Duration::from_secs(300) && !walking.is_finished(),
            "all come to the second step"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let to_the_gate = began.elapsed();
    // The other unit of each band may still be at work: its end is waited for by what is read beside.
    world.until(|world| world.turns("implement") == 3 * count).await;
    let listed = world.tasks.list(nexus_tasks::TaskListRequest::default()).await.unwrap();
    let id = listed.tasks[0].task_id.clone();
    let mut quiet = processor_time();
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let now = processor_time();
        if now == quiet || count > 1 && now.0 - quiet.0 <= Duration::from_millis(20) {
            break;
        }
        quiet = now;
    }
    let before_calls = processor_time().0;
    for _ in 0..STATUS_CALLS {
        assert_eq!(status(&world.tasks, &id).await.status, "active");
    }
    let a_call = (processor_time().0 - before_calls) / STATUS_CALLS as u32;
    let went_on = Instant::now();
    gate.add_permits(count);
    let ids = walking.await.unwrap();
    let took = to_the_gate + went_on.elapsed();
    assert_eq!(ids.len(), count);
    let (own, children) = processor_time();
    let (now, peak) = resident();
    let each = count as u32;
    let figures = json!({
        "seconds_per_task": (took / each).as_secs_f64(),
        "own_cpu_ms_per_task": (own / each).as_secs_f64() * 1e3,
        "children_cpu_ms_per_task": (children / each).as_secs_f64() * 1e3,
        "status_cpu_ms": a_call.as_secs_f64() * 1e3,
        "resident_kib": now,
        "peak_kib": peak,
        "grown_kib": peak - before.0,
    });
    println!("figures {figures}");
}

#[test]
fn many_tasks_at_once_cost_no_more_each_than_one() {
    if !has_git() {
        return;
    }
    let figures = |count: usize| -> Value {
        let mut command = child_test::command(tasks_at_once_in_a_program_of_their_own);
        let output = command.env(COUNT, count.to_string()).output().unwrap();
        child_test::assert_passed("tasks at once", &output);
        let said = String::from_utf8_lossy(&output.stdout);
        let (_, figures) = said.split_once("figures ").expect("it tells what it took");
        let figures = serde_json::from_str(figures.lines().next().unwrap()).unwrap();
        println!("{count:>2} at once: {figures}");
        figures
    };
    let number = |figures: &Value, name: &str| figures[name].as_f64().unwrap();
    let (few, many) = if effort::is_deep() { (10, 50) } else { (3, 13) };
    let more = f64::from(u32::try_from(many - few).unwrap());
    let (one, few, many) = (figures(1), figures(few), figures(many));
    for many in [&few, &many] {
        assert!(number(many, "status_cpu_ms") <= 50.0, "{many}");
        let ratio = number(many, "own_cpu_ms_per_task") / number(&one, "own_cpu_ms_per_task");
        assert!(ratio <= 2.0, "processor time of a task grew {ratio:.2} fold: {one} {many}");
    }
    let each = (number(&many, "peak_kib") - number(&few, "peak_kib")) / more;
    println!("memory of one more task at its peak: {each:.0} KiB");
    assert!(each <= 2_048.0, "{each} KiB for one more task");
}

/// Two bands of four units each.
fn two_bands() -> Value {
    let mut brief = three_steps();
    let unit = |path: String, group: &str| {
        json!({
            "tier": "execution", "phase": "implement", "agent_type": "executor", "outcome": format!("make {path}"),
            "parallel_group": group, "write_slice": [path],
        })
    };
    let band =
        |group: &'static str| (1..=4).map(move |number| unit(format!("src/{group}-{number}.txt"), group));
    brief["plan"] = band("first").chain(band("second")).collect();
    brief
}

#[tokio::test]
async fn two_bands_of_four_units_are_each_at_work_at_once() {
    let gate = Arc::new(Semaphore::new(0));
    let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (waited_for, counted, highest) = (Arc::clone(&gate), Arc::clone(&now), Arc::clone(&most));
    let Some(world) = World::new(move |seen| match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", two_bands())],
        "implement" => {
            highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let mut acts = vec![Act::Wait(Arc::clone(&waited_for))];
            acts.extend(work(seen, "step_done"));
            acts
        }
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    for (band, group) in ["first", "second"].into_iter().enumerate() {
        let tasks = world.tasks.clone();
        let asked = run(&id);
        let turn = tokio::spawn(async move { tasks.run_turn(asked).await.unwrap() });
        world.until(|world| world.turns("implement") == 4 * (band + 1)).await;
        assert_eq!((now.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (4, 4), "{group}");
        now.store(0, Ordering::SeqCst);
        gate.add_permits(4);
        let step = turn.await.unwrap().step.unwrap();
        assert_eq!((step.end.as_str(), step.attempts[0].units.len()), ("advanced", 4), "{step:?}");
    }
    let result =
        world.tasks.result(nexus_tasks::TaskResultRequest { task_id: id.clone(), offset: 0 }).await.unwrap();
    assert_eq!((result.commits.len(), result.files.len()), (2, 8), "{:?}", result.files);
    assert_eq!(status(&world.tasks, &id).await.status, "complete");
}

#[tokio::test]
async fn a_brief_whose_slices_overlap_goes_back_to_the_orchestrator() {
    let Some(world) = World::new(|seen| match seen.phase {
        "orchestrate" => {
            let mut overlapping = two_bands();
            overlapping["plan"][2]["write_slice"] = json!(["src"]);
            vec![Act::Call("submit_brief", overlapping), Act::Call("submit_brief", two_bands())]
        }
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    let answers = world.agents.answers.lock().unwrap().clone();
    let refused = ["plan[0]", "plan[2]", "both have \"src/first-1.txt\"", "give it to one of them"];
    assert!(refused.iter().all(|part| answers[0].1.contains(part)), "{answers:?}");
    assert!(!answers[0].1.contains(world.root.to_str().unwrap()), "{answers:?}");
    assert_eq!(status(&world.tasks, &id).await.plan.len(), 10, "eight units and two reviews");
}

#[tokio::test]
async fn what_is_written_outside_of_a_slice_ends_the_step_and_the_note_of_a_caller_begins_it_anew() {
    let gate = Arc::new(Semaphore::new(0));
    let waited_for = Arc::clone(&gate);
    let Some(world) = World::new(move |seen| match seen.phase {
        "orchestrate" => vec![Act::Call("submit_brief", two_bands())],
        "implement" if files(seen)[0] == "src/first-2.txt" => {
            // The tool refuses what is another unit's.
            let others = json!({ "path": "src/first-1.txt", "content": "stolen\n" });
            let mut acts = vec![Act::Call("write_file", others), Act::Wait(Arc::clone(&waited_for))];
            acts.extend(work(seen, "step_done"));
            acts
        }
        _ => honest(seen),
    }) else {
        return;
    };
    let id = world.framed().await;
    let tasks = world.tasks.clone();
    let asked = run(&id);
    let turn = tokio::spawn(async move { tasks.run_turn(asked).await.unwrap() });
    world
        .until(|world| {
            world.agents.answers.lock().unwrap().iter().any(|(_, answer)| answer.contains("is read-only"))
        })
        .await;
    // No tool does this: a program of the agent's own would.
    fs::write(world.task_folder(&id).join("work/unit-2/src/first-1.txt"), "stolen\n").unwrap();
    gate.add_permits(1);
    let turn = turn.await.unwrap();
    let step = turn.step.unwrap();
    assert_eq!((turn.status.as_str(), step.end.as_str()), ("escalated", "escalated"));
    assert!(step.reason.as_ref().unwrap().contains("changed files that it may not write"), "{step:?}");
    assert_eq!((step.commit, world.turns("review")), (None, 0));

    gate.add_permits(1);
    let note = "Each in its own slice.".to_owned();
    let reopened = nexus_tasks::TaskReopenRequest {
        task_id: id.clone(),
        note,
        ..nexus_tasks::TaskReopenRequest::default()
    };
    world.tasks.reopen(reopened).await.unwrap();
    assert_eq!(walk(&world.tasks, &id).await.last().unwrap().status, "complete");
    let request = nexus_tasks::TaskArtifactRequest { task_id: id, artifact: "patch".to_owned(), offset: 0 };
    let patch = world.tasks.artifact(request).await.unwrap().text;
    assert!(patch.contains("+src/first-1.txt was made") && !patch.contains("stolen"), "{patch}");
}
