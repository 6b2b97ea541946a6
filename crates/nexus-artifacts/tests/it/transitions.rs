//! TODO is what the tasks say.

use std::{fs, thread};

use nexus_artifacts::{Artifacts, Kind, NewTask, SliceId, SliceTaskId, WorkStatus};
use nexus_testkit::effort;

use super::support::{findings, good};

/// Numbers that differ from call to call and not from run to run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

fn eight(artifacts: &Artifacts) -> (SliceId, Vec<SliceTaskId>) {
    let slice: SliceId = "M001-S001".parse().unwrap();
    for number in 2..=8 {
        let new = NewTask { name: format!("Task {number}"), tier: "haiku".into(), ..NewTask::default() };
        artifacts.new_task(slice, &new, &[]).unwrap();
    }
    (slice, artifacts.scaffold(slice, &[]).unwrap().tasks)
}

/// What the plans say, read by hand.
fn by_hand(artifacts: &Artifacts, tasks: &[SliceTaskId]) -> Vec<String> {
    let line = |task: &SliceTaskId| {
        let plan = fs::read_to_string(artifacts.task_file(*task, Kind::TaskPlan)).unwrap();
        let status = plan.lines().find_map(|line| line.strip_prefix("status: ")).unwrap();
        let mark = match status {
            "pending" => " ",
            "in-progress" => "~",
            "done" => "x",
            "skipped" => "-",
            "parked" => "!",
            other => panic!("{other}"),
        };
        let heading = plan.lines().find_map(|line| line.strip_prefix("# ")).unwrap();
        let name = heading.split_once(" — ").unwrap().1;
        format!("- [{mark}] **{task}** — {name}")
    };
    tasks.iter().map(line).collect()
}

fn todo_lines(artifacts: &Artifacts, slice: SliceId) -> Vec<String> {
    let todo = fs::read_to_string(artifacts.slice_file(slice, Kind::Todo)).unwrap();
    todo.lines().filter(|line| line.starts_with("- [")).map(str::to_owned).collect()
}

#[test]
fn todo_equals_what_the_tasks_say_after_each_of_many_transitions() {
    let (folder, artifacts) = good();
    let (slice, tasks) = eight(&artifacts);
    let mut numbers = Numbers(16);
    let mut statuses = vec![WorkStatus::Pending; tasks.len()];
    statuses[0] = WorkStatus::Done;
    for step in 0..25 * effort::rounds() {
        let task = numbers.below(tasks.len());
        let status = WorkStatus::ALL[numbers.below(WorkStatus::ALL.len())];
        let before = artifacts.mark_task(tasks[task], status).unwrap();
        assert_eq!(before, statuses[task], "step {step}");
        statuses[task] = status;
        assert_eq!(todo_lines(&artifacts, slice), by_hand(&artifacts, &tasks), "step {step}");
    }
    let list = artifacts.task_list(slice).unwrap();
    assert_eq!(list.iter().map(|task| task.status).collect::<Vec<_>>(), statuses);
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}

#[test]
fn todo_is_never_read_as_truth() {
    let (_folder, artifacts) = good();
    let task: SliceTaskId = "M001-S001-T0001".parse().unwrap();
    let todo = artifacts.slice_file(task.slice, Kind::Todo);
    let right = fs::read(&todo).unwrap();
    fs::write(&todo, "- [x] everything\n").unwrap();
    assert_eq!(artifacts.task_list(task.slice).unwrap()[0].status, WorkStatus::Done);
    artifacts.mark_task(task, WorkStatus::Done).unwrap();
    assert_eq!(fs::read(&todo).unwrap(), right);
}

#[test]
fn a_transition_changes_the_status_and_no_other_byte() {
    for (old, new) in [
        ("status: done", "status: parked"),
        ("status: \"done\"   # so far", "status: \"parked\"   # so far"),
        ("status:  'done'\r", "status:  'parked'\r"),
    ] {
        let (_folder, artifacts) = good();
        let task: SliceTaskId = "M001-S001-T0001".parse().unwrap();
        let path = artifacts.task_file(task, Kind::TaskPlan);
        let text = fs::read_to_string(&path).unwrap().replace("status: done", old);
        let text = format!("{text}\n```\nstatus: done\n```\nno line end");
        fs::write(&path, &text).unwrap();
        artifacts.mark_task(task, WorkStatus::Parked).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text.replacen(old, new, 1));
    }
}

#[test]
fn a_plan_that_cannot_be_read_stops_the_transition_of_another() {
    let (_folder, artifacts) = good();
    let (slice, tasks) = eight(&artifacts);
    let broken = artifacts.task_file(tasks[3], Kind::TaskPlan);
    fs::write(&broken, "nothing").unwrap();
    let todo = fs::read(artifacts.slice_file(slice, Kind::Todo)).unwrap();
    let plan = fs::read(artifacts.task_file(tasks[5], Kind::TaskPlan)).unwrap();
    let error = artifacts.mark_task(tasks[5], WorkStatus::Done).unwrap_err().to_string();
    assert!(error.contains("M001-S001-T0004"), "{error}");
    assert_eq!(fs::read(artifacts.slice_file(slice, Kind::Todo)).unwrap(), todo);
    assert_eq!(fs::read(artifacts.task_file(tasks[5], Kind::TaskPlan)).unwrap(), plan);
}

#[test]
fn transitions_of_several_threads_lose_nothing() {
    let (folder, artifacts) = good();
    let (slice, tasks) = eight(&artifacts);
    thread::scope(|scope| {
        for (seed, of_one) in tasks.chunks(2).enumerate() {
            let artifacts = &artifacts;
            scope.spawn(move || {
                let mut numbers = Numbers(seed as u64);
                for _ in 0..25 {
                    let task = of_one[numbers.below(of_one.len())];
                    artifacts.mark_task(task, WorkStatus::ALL[numbers.below(5)]).unwrap();
                }
                for task in of_one {
                    artifacts.mark_task(*task, WorkStatus::Skipped).unwrap();
                }
            });
        }
    });
    assert!(artifacts.task_list(slice).unwrap().iter().all(|task| task.status == WorkStatus::Skipped));
    assert_eq!(todo_lines(&artifacts, slice), by_hand(&artifacts, &tasks));
    assert_eq!(findings(folder.path()), Vec::<String>::new());
}
