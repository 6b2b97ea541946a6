//! Files that are really written, with the system's own word of it.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use nexus_core::CancelToken;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::Bench;
use crate::{
    message::Payload,
    trigger::{FileSchedule, NewTrigger, Scheduler, SchedulerSettings, TriggerSchedule, Triggers},
};

/// How long something may take that is to happen.
const AT_MOST: Duration = Duration::from_secs(60);
/// How long nothing is written before a change fires.
const QUIET: Duration = Duration::from_millis(200);

/// Schedulers that run until they are dropped.
struct Running {
    cancel: CancelToken,
    _tasks: Vec<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn run(triggers: impl IntoIterator<Item = Triggers>) -> Running {
    let cancel = CancelToken::new();
    let start = |triggers| {
        let settings =
            SchedulerSettings { read_every: Duration::from_millis(100), ..SchedulerSettings::default() };
        let (scheduler, cancel) = (Scheduler::new(triggers, settings), cancel.clone());
        tokio::spawn(async move { scheduler.run(&cancel).await })
    };
    let tasks = triggers.into_iter().map(start).collect();
    Running { cancel, _tasks: tasks }
}

async fn fires(bench: &Bench, count: usize) {
    let waited = tokio::time::timeout(AT_MOST, async {
        while bench.fired().len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("{:?} fired of {count}", bench.fired()));
    stays(bench, count).await;
}

/// Nothing more fires in several quiet times.
async fn stays(bench: &Bench, count: usize) {
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(bench.fired().len(), count, "{:?}", last(bench));
}

fn last(bench: &Bench) -> Value {
    match bench.store.put_so_far().pop().map(|(_, envelope)| envelope.payload) {
        Some(Payload::Trigger { data: Some(data), .. }) => data,
        _ => Value::Null,
    }
}

fn quick(mut schedule: FileSchedule) -> FileSchedule {
    schedule.quiet_milliseconds = u64::try_from(QUIET.as_millis()).unwrap();
    schedule
}

async fn watch(bench: &Bench, schedule: FileSchedule) -> crate::trigger::Trigger {
    bench.create(TriggerSchedule::File(quick(schedule))).await
}

/// Writes a file in one step, as an editor saves: no quiet time passes in the middle of it.
fn replace(path: &Path, text: &str) {
    let elsewhere = tempfile::NamedTempFile::new().unwrap();
    fs::write(elsewhere.path(), text).unwrap();
    elsewhere.persist(path).unwrap();
}

/// Writes `times` times, and returns the longest pause before a write.
async fn often(times: u32, write: impl Fn(u32) + Send + 'static) -> Duration {
    let written = tokio::task::spawn_blocking(move || {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        for number in 0..times {
            write(number);
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        longest
    });
    written.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_written_a_thousand_times_fires_once_over_two_brokers() {
    let until = Instant::now() + AT_MOST;
    let (folder, path, bench, made, _running) = loop {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let bench = Bench::at("2026-01-01T00:00:00Z");
        let made = watch(&bench, FileSchedule::file(&path)).await;
        let running = run([bench.elsewhere(), bench.elsewhere()]);
        let written = path.clone();
        let pause = often(1000, move |number| fs::write(&written, format!("{number}\n")).unwrap()).await;
        // A machine that stands still in the middle of it makes two changes of it.
        if pause < QUIET / 2 {
            break (folder, path, bench, made, running);
        }
        assert!(Instant::now() < until, "no thousand writes without a pause");
    };
    fires(&bench, 1).await;
    let data = json!({ "path": path, "files": [{ "path": "log", "change": "written", "size": 4 }] });
    assert_eq!(last(&bench), data);
    assert!(bench.triggers.trigger(&made.id).await.unwrap().last_run.is_some());
    replace(&path, "as an editor saves it");
    fires(&bench, 2).await;
    // Neither is deleting it a change that was asked for, nor what is beside it.
    fs::remove_file(&path).unwrap();
    fs::write(folder.path().join("other"), "").unwrap();
    stays(&bench, 2).await;
    replace(&path, "again");
    fires(&bench, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_fires_once_for_many_files_that_fit_and_tells_of_deletions_if_asked() {
    let until = Instant::now() + AT_MOST;
    let (folder, bench, _running) = loop {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        let bench = Bench::at("2026-01-01T00:00:00Z");
        let mut schedule = FileSchedule::folder(folder.path());
        schedule.pattern = Some("**/*.csv".to_owned());
        schedule.recursive = true;
        schedule.deleted = true;
        watch(&bench, schedule).await;
        let running = run([bench.elsewhere(), bench.elsewhere()]);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let path = folder.path().to_owned();
        let write = move |number| {
            fs::write(path.join(format!("below/{number}.csv")), "x").unwrap();
            fs::write(path.join(format!("{number}.txt")), "x").unwrap();
        };
        if often(150, write).await < QUIET / 2 {
            break (folder, bench, running);
        }
        assert!(Instant::now() < until, "no writes without a pause");
    };
    fires(&bench, 1).await;
    let data = last(&bench);
    assert_eq!((data["files"].as_array().unwrap().len(), &data["further_files"]), (100, &json!(50)));
    fs::write(folder.path().join("1.txt"), "other").unwrap();
    fs::write(folder.path().join("passing.csv"), "").unwrap();
    fs::remove_file(folder.path().join("passing.csv")).unwrap();
    stays(&bench, 1).await;
    fs::remove_file(folder.path().join("below/7.csv")).unwrap();
    fires(&bench, 2).await;
    assert_eq!(last(&bench)["files"], json!([{ "path": "below/7.csv", "change": "deleted" }]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_is_missing_is_looked_for_and_found_again_when_another_has_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in");
    let bench = Bench::at("2026-01-01T00:00:00Z");
    watch(&bench, FileSchedule::folder(&path)).await;
    let _running = run([bench.elsewhere()]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    fs::create_dir(&path).unwrap();
    replace(&path.join("a"), "1");
    fires(&bench, 1).await;
    fs::remove_dir_all(&path).unwrap();
    stays(&bench, 1).await;
    fs::create_dir(&path).unwrap();
    replace(&path.join("b"), "1");
    fires(&bench, 2).await;
    replace(&path.join("b"), "22");
    fires(&bench, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_changed_while_no_broker_ran_fires_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    fs::write(&path, "before").unwrap();
    let bench = Bench::at("2026-01-01T00:00:00Z");
    watch(&bench, FileSchedule::file(&path)).await;
    {
        let _running = run([bench.elsewhere()]);
        stays(&bench, 0).await;
    }
    fs::write(&path, "after").unwrap();
    {
        let _running = run([bench.elsewhere(), bench.elsewhere()]);
        fires(&bench, 1).await;
        let files = json!([{ "path": "a", "change": "written", "size": 5 }]);
        assert_eq!(last(&bench), json!({ "path": path, "files": files }));
    }
    let _running = run([bench.elsewhere()]);
    stays(&bench, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_looked_at_where_the_system_does_not_tell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let mut schedule = FileSchedule::file(&path);
    schedule.poll_milliseconds = Some(100);
    watch(&bench, schedule).await;
    let _running = run([bench.elsewhere(), bench.elsewhere()]);
    replace(&path, "1");
    fires(&bench, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_another_machine_are_left_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let new = NewTrigger::new("worker", TriggerSchedule::File(quick(FileSchedule::file(&path))), "look");
    let made = bench.elsewhere().on_machine("here").create(new).await.unwrap();
    assert!(matches!(&made.schedule, TriggerSchedule::File(file) if file.machine.as_deref() == Some("here")));
    let there = run([bench.elsewhere().on_machine("there"), bench.elsewhere()]);
    fs::write(&path, "1").unwrap();
    stays(&bench, 0).await;
    drop(there);
    let _here = run([bench.elsewhere().on_machine("here")]);
    fires(&bench, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_triggers_on_one_folder_do_not_end_one_another() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("below")).unwrap();
    let bench = Bench::at("2026-01-01T00:00:00Z");
    let flat = watch(&bench, FileSchedule::folder(folder.path())).await;
    let mut deep = FileSchedule::folder(folder.path());
    deep.recursive = true;
    let deep = watch(&bench, deep).await;
    let _running = run([bench.elsewhere()]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    replace(&folder.path().join("below/a"), "1");
    fires(&bench, 1).await;
    bench.triggers.delete(&flat.id).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    replace(&folder.path().join("below/a"), "22");
    fires(&bench, 2).await;
    bench.triggers.set_enabled(&deep.id, false).await.unwrap();
    fs::write(folder.path().join("below/a"), "333").unwrap();
    stays(&bench, 2).await;
    bench.triggers.set_enabled(&deep.id, true).await.unwrap();
    stays(&bench, 2).await;
}
