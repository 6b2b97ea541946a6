//! Triggers over the store of one machine, by several brokers that are killed.

use std::{
    env, fs,
    path::Path,
    process::{Child, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use nexus_broker::{
    BrokerStore, Payload, QueueLimits, SqliteStore,
    trigger::{
        CronSchedule, EventSchedule, FileSchedule, MissedRule, NewTrigger, Scheduler, SchedulerSettings,
        StoreTargets, TriggerSchedule, Triggers,
    },
};
use nexus_core::{CancelToken, Clock};
use nexus_testkit::{child_test, effort};

/// A clock on which a minute is a tenth of a second, the same in all processes of a test.
#[derive(Clone, Copy, Debug)]
struct FastClock {
    began: SystemTime,
}

const SPEED: u32 = 600;
/// Longest wait for what brokers do, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a file is left alone before a change of it fires.
const QUIET: Duration = Duration::from_millis(200);

impl Clock for FastClock {
    fn now(&self) -> SystemTime {
        self.began + self.began.elapsed().unwrap_or_default() * SPEED
    }
}

async fn open(file: &Path, clock: FastClock) -> (Arc<dyn BrokerStore>, Triggers) {
    let store = SqliteStore::open(file, QueueLimits::default(), Arc::new(clock)).await.unwrap();
    let store: Arc<dyn BrokerStore> = Arc::new(store);
    let targets = StoreTargets::new(Arc::clone(&store));
    let triggers = Triggers::new(Arc::clone(&store), Arc::new(clock), Arc::new(targets));
    (store, triggers)
}

/// The occurrences of all firings in the log.
async fn fired(store: &Arc<dyn BrokerStore>) -> Vec<String> {
    let mut fired = Vec::new();
    let mut after = 0;
    loop {
        let page = store.log(after, 500).await.unwrap();
        let Some(last) = page.last() else { return fired };
        after = last.number;
        fired.extend(page.into_iter().filter_map(|logged| match logged.envelope.payload {
            Payload::Trigger { occurrence, .. } => Some(occurrence),
            _ => None,
        }));
    }
}

const FILE: &str = "NEXUS_TEST_TRIGGERS_FILE";
const BEGAN: &str = "NEXUS_TEST_TRIGGERS_BEGAN";

/// Ends the process that it holds.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// This test again, as a process that schedules until it is killed.
fn scheduling_process(file: &Path, began: SystemTime) -> Killed {
    let began = began.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string();
    let mut command = child_test::command(schedulers_that_are_killed_fire_every_minute_once);
    command.env(FILE, file).env(BEGAN, began);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    Killed(child.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedulers_that_are_killed_fire_every_minute_once() {
    if let (Some(file), Ok(began)) = (env::var_os(FILE), env::var(BEGAN)) {
        let began = UNIX_EPOCH + Duration::from_nanos(began.parse().unwrap());
        let (_, triggers) = open(Path::new(&file), FastClock { began }).await;
        let mut settings = SchedulerSettings::default();
        (settings.look_every, settings.read_every) = (Duration::from_millis(20), Duration::from_millis(20));
        Scheduler::new(triggers, settings).run(&CancelToken::new()).await;
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let clock = FastClock { began: SystemTime::now() };
    let (store, triggers) = open(&file, clock).await;
    let mut schedule = CronSchedule::new("* * * * *").with_missed(MissedRule::All);
    schedule.most_missed = 1000;
    let made =
        triggers.create(NewTrigger::new("worker", TriggerSchedule::Cron(schedule), "look")).await.unwrap();
    // Two run at a time. One of them is killed, once a firing shows that they run, a moment later each time.
    let mut running = [scheduling_process(&file, clock.began), scheduling_process(&file, clock.began)];
    let mut seen = 0;
    for round in 0..effort::rounds() {
        let until = Instant::now() + PATIENCE;
        loop {
            let now = fired(&store).await.len();
            if now > seen {
                seen = now;
                break;
            }
            assert!(Instant::now() < until, "nothing fires in round {round}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(round as u64 * 37 % 130)).await;
        running[round % 2] = scheduling_process(&file, clock.began);
    }
    drop(running);
    let look = Scheduler::new(triggers.clone(), SchedulerSettings::default()).look().await.unwrap();
    assert!(look.failures.is_empty(), "{:?}", look.failures);
    let decided = triggers.trigger(&made.id).await.unwrap().decided_until.unwrap();
    let minute = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs() / 60;
    let expected: Vec<_> = (minute(made.created_at) + 1..=minute(decided))
        .map(|minute| {
            humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(minute * 60)).to_string()
        })
        .collect();
    let mut fired = fired(&store).await;
    fired.sort();
    assert_eq!(fired, expected);
    assert!(fired.len() >= effort::rounds(), "{fired:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_and_files_fire_once_over_two_brokers_with_a_file_each_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let (file, watched) = (folder.path().join("store"), folder.path().join("in"));
    fs::create_dir(&watched).unwrap();
    let clock = FastClock { began: SystemTime::now() };
    let (store, one) = open(&file, clock).await;
    let (_, two) = open(&file, clock).await;
    let event = TriggerSchedule::Event(EventSchedule::new("deployed"));
    one.create(NewTrigger::new("worker", event, "look")).await.unwrap();
    let cancel = CancelToken::new();
    let tasks = [one.clone(), two.clone()].map(|triggers| {
        let cancel = cancel.clone();
        tokio::spawn(async move { Scheduler::new(triggers, SchedulerSettings::default()).run(&cancel).await })
    });
    let mut schedule = FileSchedule::folder(&watched);
    schedule.quiet_milliseconds = u64::try_from(QUIET.as_millis()).unwrap();
    two.create(NewTrigger::new("worker", TriggerSchedule::File(schedule), "look")).await.unwrap();
    for id in ["e1", "e2", "e1"] {
        let (by_one, by_two) =
            tokio::join!(one.fire_event("deployed", id, None), two.fire_event("deployed", id, None));
        assert_eq!((by_one.unwrap().len(), by_two.unwrap().len()), (1, 1));
    }
    let (mut last, mut longest_pause) = (Instant::now(), Duration::ZERO);
    for number in 0..1000 {
        fs::write(watched.join("a"), number.to_string()).unwrap();
        longest_pause = longest_pause.max(last.elapsed());
        last = Instant::now();
    }
    let waited = tokio::time::timeout(PATIENCE, async {
        while fired(&store).await.len() < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    waited.await.expect("a file that was written fires");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let fired = fired(&store).await;
    assert_eq!(fired[..2], ["e1", "e2"]);
    // Once for all writes, unless the machine stood still in the middle of them.
    assert!(fired.len() == 3 || longest_pause > QUIET / 2, "{fired:?}");
    cancel.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}
