//! Holds in a folder that several processes share.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use nexus_core::{
    CancelToken, Clock, ErrorKind, EventEnvelope, Limit, Limits, Retry, TurnEvent, TurnHost, TurnRequest,
};
use nexus_router::{
    Hold, Router,
    hold::{FileHoldStore, HoldStore, Slot},
};
use nexus_testkit::scripted::ScriptedBackend;
use nexus_testkit::{child_test, effort};
use serde_json::json;

use super::support::{Act, ManualClock, answering, builder, chain, fake, run, run_with};

const LIMITED: Act = Act::Fail(ErrorKind::RateLimited, Retry::After(Duration::from_secs(300)), "slow down");
/// The folder of a process that a test started.
const FOLDER: &str = "NEXUS_TEST_HOLDS_FOLDER";
/// What that process is called.
const NAME: &str = "NEXUS_TEST_HOLDS_NAME";

/// A router as another process of this machine would have it.
fn router_in(folder: &Path, clock: &Arc<ManualClock>, alpha: &Arc<ScriptedBackend>) -> Router {
    let store = Arc::new(FileHoldStore::in_folder(folder));
    let builder = builder(&[alpha]).clock(Arc::clone(clock) as Arc<dyn Clock>).hold_store(store);
    builder.from_str(&chain("alpha")).unwrap()
}

/// One that runs so many turns at once.
fn bounded_in(folder: &Path, limit: usize, alpha: &Arc<ScriptedBackend>) -> Router {
    let text = format!("{}backends: {{ alpha: {{ max_turns_at_once: {limit} }} }}\n", chain("alpha"));
    let store = Arc::new(FileHoldStore::in_folder(folder));
    builder(&[alpha]).hold_store(store).from_str(&text).unwrap()
}

fn is_queued(events: &[EventEnvelope]) -> bool {
    events.iter().any(|envelope| matches!(envelope.event, TurnEvent::Queued(_)))
}

/// A hold whose time was over long ago.
fn over(backend: &str) -> Hold {
    over_because(backend, "slow down")
}

fn over_because(backend: &str, reason: &str) -> Hold {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let hold = json!({
        "backend": backend, "since": time, "until": time, "guessed": false, "named_until": null,
        "kind": "rate_limited", "reason": reason, "probing": false,
    });
    serde_json::from_value(hold).unwrap()
}

/// Runs one test of this file in a process of its own.
fn start<T>(test: T, folder: &Path, name: &str) -> Child {
    child_test::command(test)
        .env(FOLDER, folder)
        .env(NAME, name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The folder and the name, in a process that [`start`] started.
fn started() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(FOLDER)?.into(), std::env::var(NAME).unwrap()))
}

/// Reads what a process says until a line that begins so.
fn wait_for(child: &mut Child, words: &[&str]) -> String {
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if words.iter().any(|word| line.starts_with(word)) {
            return line;
        }
    }
    panic!("the process ended without a word of {words:?}");
}

#[tokio::test]
async fn a_refusal_counts_for_other_processes_and_so_does_a_success() {
    let folder = tempfile::tempdir().unwrap();
    let holds = folder.path().join("holds");
    let clock = ManualClock::new();
    let alpha = fake("alpha", [LIMITED, Act::Answer("back".into())]);
    let (one, other) = (router_in(&holds, &clock, &alpha), router_in(&holds, &clock, &alpha));
    assert!(other.refresh_holds().await.is_empty() && !holds.exists(), "something was made to look");
    run(&one, TurnRequest::new("x")).await.1.unwrap_err();

    assert!(other.holds().is_empty());
    assert_eq!(other.refresh_holds().await, one.holds());
    let text = other.explain("work").unwrap().to_string();
    assert_eq!(text, "work → main\n  1. alpha  skipped: on hold for 5m 0s: slow down");
    let error = run(&other, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!(
        (error.kind(), error.message(), alpha.turns()),
        (
            ErrorKind::RateLimited,
            Some("not asked, since an earlier turn was refused: on hold for 5m 0s: slow down"),
            1
        )
    );

    clock.advance(Duration::from_secs(300));
    run(&other, TurnRequest::new("x")).await.1.unwrap();
    assert!(one.refresh_holds().await.is_empty() && one.holds().is_empty());
}

#[tokio::test]
async fn one_turn_of_all_processes_finds_out() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let alpha = fake("alpha", [LIMITED, Act::Hang, Act::Answer("back".into())]);
    let (one, other) = (router_in(folder.path(), &clock, &alpha), router_in(folder.path(), &clock, &alpha));
    run(&one, TurnRequest::new("x")).await.1.unwrap_err();
    clock.advance(Duration::from_secs(300));
    let probe = tokio::spawn(async move { run(&one, TurnRequest::new("x")).await.1 });
    while alpha.turns() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let error = run(&other, TurnRequest::new("x")).await.1.unwrap_err();
    assert_eq!((error.kind(), alpha.turns()), (ErrorKind::RateLimited, 2));
    assert!(other.refresh_holds().await[0].probing);
    let text = other.explain("work").unwrap().to_string();
    assert!(text.contains("another turn probes whether the backend works again"), "{text}");

    probe.abort();
    probe.await.unwrap_err();
    // A process that another test starts has the slot for a moment: files are open in it until it executes its program.
    let began = Instant::now();
    while other.refresh_holds().await[0].probing {
        assert!(began.elapsed() < Duration::from_secs(60), "the slot is kept");
    }
    assert_eq!(run(&other, TurnRequest::new("x")).await.1.unwrap().text, "back");
}

#[tokio::test]
async fn of_sixteen_processes_one_finds_out_and_when_it_is_killed_another_may() {
    if let Some((folder, _)) = started() {
        let store = FileHoldStore::in_folder(folder);
        let claim = store.claim(&Slot::Probe("alpha".into())).await.unwrap();
        println!("\n{}", if claim.is_some() { "claimed" } else { "taken" });
        // Until it is killed.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = FileHoldStore::in_folder(folder.path());
    assert!(store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
    let test = of_sixteen_processes_one_finds_out_and_when_it_is_killed_another_may;
    let mut children: Vec<Child> = (0..16).map(|_| start(test, folder.path(), "")).collect();
    let said: Vec<String> = children.iter_mut().map(|child| wait_for(child, &["claimed", "taken"])).collect();
    assert_eq!(said.iter().filter(|said| *said == "claimed").count(), 1, "{said:?}");
    assert!(store.get(&"alpha".into()).await.unwrap().unwrap().hold.probing);
    assert!(store.claim(&Slot::Probe("alpha".into())).await.unwrap().is_none());
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(!store.get(&"alpha".into()).await.unwrap().unwrap().hold.probing);
    assert!(store.claim(&Slot::Probe("alpha".into())).await.unwrap().is_some());
}

#[tokio::test]
async fn sixteen_processes_that_write_at_once_lose_nothing() {
    const CHANGES: u64 = 20;
    if let Some((folder, name)) = started() {
        let store = FileHoldStore::in_folder(folder);
        // A count that every process adds to: a set that was lost would be missing.
        for _ in 0..CHANGES {
            loop {
                let found = store.get(&"all".into()).await.unwrap();
                let (expected, mut hold) = match found {
                    Some(stored) => (Some(stored.revision), stored.hold),
                    None => (None, over_because("all", "0")),
                };
                hold.reason = (hold.reason.parse::<u64>().unwrap() + 1).to_string();
                if store.swap(&"all".into(), expected, Some(hold)).await.unwrap() {
                    break;
                }
            }
        }
        assert!(store.swap(&name.as_str().into(), None, Some(over(&name))).await.unwrap());
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..16).map(|number| format!("Own/{number}")).collect();
    let test = sixteen_processes_that_write_at_once_lose_nothing;
    let children: Vec<Child> = names.iter().map(|name| start(test, folder.path(), name)).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        child_test::assert_passed("a process that writes", &output);
    }
    let held = FileHoldStore::in_folder(folder.path()).list().await.unwrap();
    assert_eq!(held.len(), 17);
    let all = held.iter().find(|stored| stored.hold.backend.as_str() == "all").unwrap();
    assert_eq!(all.hold.reason, (16 * CHANGES).to_string());
}

#[tokio::test]
async fn a_writer_that_is_killed_at_any_moment_leaves_the_old_holds_or_the_new_ones() {
    if let Some((folder, _)) = started() {
        let store = FileHoldStore::in_folder(folder);
        let mut expected = store.get(&"alpha".into()).await.unwrap().map(|stored| stored.revision);
        println!("\nwriting");
        loop {
            assert!(store.swap(&"alpha".into(), expected, Some(over("alpha"))).await.unwrap());
            expected = store.get(&"alpha".into()).await.unwrap().map(|stored| stored.revision);
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let store = FileHoldStore::in_folder(folder.path());
    store.swap(&"beta".into(), None, Some(over("beta"))).await.unwrap();
    for round in 0..u64::try_from(effort::rounds()).unwrap() {
        let test = a_writer_that_is_killed_at_any_moment_leaves_the_old_holds_or_the_new_ones;
        let mut child = start(test, folder.path(), "");
        wait_for(&mut child, &["writing"]);
        tokio::time::sleep(Duration::from_micros(500 + round * 370)).await;
        child.kill().unwrap();
        child.wait().unwrap();
        let held = store.list().await.unwrap();
        assert_eq!(held.last().unwrap().hold, over("beta"), "round {round}");
        // The lock went with it.
        let revision = held.last().unwrap().revision;
        assert!(store.swap(&"beta".into(), Some(revision), Some(over("beta"))).await.unwrap());
    }
    assert!(!folder.path().join("holds.json.unreadable-1").exists());
    assert!(!folder.path().join("holds.json.new").exists());
}

#[tokio::test]
async fn what_cannot_be_understood_is_moved_aside_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("holds.json");
    let store = FileHoldStore::in_folder(folder.path());
    let too_long = format!("{{\"holds\":[]{}}}", " ".repeat(2 << 20));
    let garbage = ["", "{", "[]", "\u{0}\u{0}", "{\"holds\":[{\"hold\":{}}]}", &too_long];
    for (number, text) in garbage.iter().enumerate() {
        fs::write(&path, text).unwrap();
        assert!(store.list().await.unwrap().is_empty(), "{number}");
        let aside = folder.path().join(format!("holds.json.unreadable-{}", number + 1));
        assert_eq!(fs::read_to_string(aside).unwrap(), *text);
    }
    // Not read first, but written over.
    fs::write(&path, "garbage").unwrap();
    assert!(store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
    assert_eq!(fs::read_to_string(folder.path().join("holds.json.unreadable-7")).unwrap(), "garbage");
    assert_eq!(FileHoldStore::in_folder(folder.path()).list().await.unwrap().len(), 1);

    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(store.list().await.unwrap().is_empty());
    assert!(folder.path().join("holds.json.unreadable-8").is_dir());

    // With no name left the file stays as it is, and holds are those of this process.
    for number in 9..=10 {
        fs::write(folder.path().join(format!("holds.json.unreadable-{number}")), "").unwrap();
    }
    fs::write(&path, "the last").unwrap();
    assert!(store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
    assert_eq!(store.list().await.unwrap().len(), 1);
    assert_eq!(fs::read_to_string(&path).unwrap(), "the last");
}

#[tokio::test]
async fn long_reasons_keep_no_hold_from_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    let store = FileHoldStore::in_folder(folder.path());
    // Each of these characters takes six bytes in the file.
    let reason = "\u{1}".repeat(20_000);
    for number in 0..16 {
        let backend = format!("backend-{number}");
        let hold = over_because(&backend, &reason);
        assert!(store.swap(&backend.as_str().into(), None, Some(hold)).await.unwrap());
    }
    let seen = FileHoldStore::in_folder(folder.path()).list().await.unwrap();
    assert_eq!(seen.len(), 16);
    assert!(seen.iter().all(|stored| reason.starts_with(&stored.hold.reason)));
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_or_a_pipe_is_not_followed_and_blocks_nobody() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().unwrap();
    let holds = folder.path().join("holds");
    fs::create_dir(&holds).unwrap();
    let (victim, path) = (folder.path().join("victim"), holds.join("holds.json"));
    fs::write(&victim, "mine").unwrap();
    symlink(&victim, &path).unwrap();
    symlink(&victim, holds.join("holds.json.new")).unwrap();
    let store = FileHoldStore::in_folder(&holds);
    assert!(store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    let found = fs::symlink_metadata(&path).unwrap();
    assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600, "{found:?}");

    let pipe = |name: &str| assert!(Command::new("mkfifo").arg(holds.join(name)).status().unwrap().success());
    fs::remove_file(&path).unwrap();
    pipe("holds.json");
    fs::create_dir_all(holds.join("slots")).unwrap();
    pipe("slots/alpha.probe");
    assert!(store.list().await.unwrap().is_empty());
    let claim = store.claim(&Slot::Probe("alpha".into())).await.unwrap();
    assert!(claim.is_some() && store.claim(&Slot::Probe("alpha".into())).await.unwrap().is_none());
}

#[tokio::test]
async fn where_nothing_can_be_written_holds_are_those_of_the_process() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let clock = ManualClock::new();
    let alpha = fake("alpha", [LIMITED, Act::Answer("back".into())]);
    let router = router_in(&folder.path().join("file/holds"), &clock, &alpha);
    for _ in 0..2 {
        let error = run(&router, TurnRequest::new("x")).await.1.unwrap_err();
        assert_eq!((error.kind(), alpha.turns()), (ErrorKind::RateLimited, 1));
    }
    assert_eq!(router.refresh_holds().await.len(), 1);
    clock.advance(Duration::from_secs(300));
    run(&router, TurnRequest::new("x")).await.1.unwrap();
    assert!(router.refresh_holds().await.is_empty() && router.holds().is_empty());
}

#[tokio::test]
async fn what_could_not_be_written_counts_until_the_file_can_be_or_another_process_knows_better() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (FileHoldStore::in_folder(folder.path()), FileHoldStore::in_folder(folder.path()));
    let lock = folder.path().join("holds.lock");
    // A folder in the place of the lock: nobody can write.
    fs::create_dir(&lock).unwrap();
    for backend in ["alpha", "beta"] {
        assert!(store.swap(&backend.into(), None, Some(over(backend))).await.unwrap());
    }
    assert!(!store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
    assert_eq!((store.list().await.unwrap().len(), other.list().await.unwrap().len()), (2, 0));
    fs::remove_dir(&lock).unwrap();
    let news = over_because("alpha", "news");
    assert!(other.swap(&"alpha".into(), None, Some(news.clone())).await.unwrap());
    assert_eq!(store.get(&"alpha".into()).await.unwrap().unwrap().hold, news);
    // The next write takes along what is left.
    assert!(store.swap(&"gamma".into(), None, Some(over("gamma"))).await.unwrap());
    assert_eq!(other.list().await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_clock_that_was_set_back_holds_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let alpha = fake("alpha", [LIMITED, Act::Answer("back".into())]);
    let late = ManualClock::new();
    late.advance(Duration::from_secs(3600));
    run(&router_in(folder.path(), &late, &alpha), TurnRequest::new("x")).await.1.unwrap_err();
    let router = router_in(folder.path(), &clock, &alpha);
    assert_eq!(run(&router, TurnRequest::new("x")).await.1.unwrap().text, "back");
    assert!(router.refresh_holds().await.is_empty());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_leaves_the_old_holds_in_the_file_and_the_new_ones_in_the_process() {
    if let Some((folder, _)) = started() {
        let store = FileHoldStore::in_folder(&folder);
        assert!(store.swap(&"alpha".into(), None, Some(over("alpha"))).await.unwrap());
        let filler = fs::write(folder.join("filler"), vec![0; 1 << 20]).unwrap_err();
        assert_eq!(filler.kind(), std::io::ErrorKind::StorageFull);
        let long = over_because("beta", &"long ".repeat(2_000));
        assert!(store.swap(&"beta".into(), None, Some(long.clone())).await.unwrap());
        let backends = |held: Vec<nexus_router::hold::StoredHold>| held.len();
        assert_eq!(backends(store.list().await.unwrap()), 2);
        let fresh = FileHoldStore::in_folder(&folder);
        assert_eq!(backends(fresh.list().await.unwrap()), 1);
        fs::remove_file(folder.join("filler")).unwrap();
        let revision = store.get(&"beta".into()).await.unwrap().unwrap().revision;
        assert!(store.swap(&"beta".into(), Some(revision), Some(long)).await.unwrap());
        assert_eq!(backends(fresh.list().await.unwrap()), 2);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().to_str().unwrap();
    // The disk is there for the started process alone, and gone with it.
    let script = "mount -t tmpfs -o size=64k small \"$1\" || exit 77; shift; exec \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--map-root-user", "--mount", "sh", "-c", script, "sh", disk]);
    let test = a_full_disk_leaves_the_old_holds_in_the_file_and_the_new_ones_in_the_process;
    let output = child_test::through(launcher, test).env(FOLDER, disk).env(NAME, "").output();
    match output {
        Ok(output) if output.status.success() || output.status.code() == Some(101) => {
            child_test::assert_passed("the process with the full disk", &output);
        }
        unable => eprintln!("skipped: no small disk can be mounted here ({unable:?})"),
    }
}

#[tokio::test(start_paused = true)]
async fn turns_at_once_are_those_of_all_processes() {
    let folder = tempfile::tempdir().unwrap();
    let alpha = fake("alpha", [Act::Slow(Duration::from_millis(60))]);
    let routers = [(); 4].map(|()| bounded_in(folder.path(), 2, &alpha));
    let turns = routers.iter().cycle().take(12).map(|router| run(router, TurnRequest::new("x")));
    let outcomes = futures::future::join_all(turns).await;
    assert_eq!((alpha.turns(), alpha.most_at_once()), (12, 2));
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(outcomes.iter().filter(|(events, _)| is_queued(events)).count() >= 6);
}

#[tokio::test(start_paused = true)]
async fn a_place_of_a_process_that_is_killed_is_taken_and_the_wait_ends_with_the_turn() {
    if let Some((folder, _)) = started() {
        let store = FileHoldStore::in_folder(folder);
        let turn = store.claim(&Slot::Turn("alpha".into(), 0)).await.unwrap();
        // As one that waits for a second turn.
        let next = store.claim(&Slot::Next("alpha".into())).await.unwrap();
        println!("\n{}", if turn.is_some() && next.is_some() { "claimed" } else { "taken" });
        // Until it is killed.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let test = a_place_of_a_process_that_is_killed_is_taken_and_the_wait_ends_with_the_turn;
    let mut child = start(test, folder.path(), "");
    assert_eq!(wait_for(&mut child, &["claimed", "taken"]), "claimed");
    let alpha = answering("alpha");
    let router = bounded_in(folder.path(), 1, &alpha);

    let limits = Limits::new().with_deadline(Duration::from_millis(50));
    let error = run(&router, TurnRequest::new("x").with_limits(limits)).await.1.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    let cancel = CancelToken::new();
    let turn = run_with(&router, TurnRequest::new("x"), TurnHost::new().with_cancel(cancel.clone()));
    let stop = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let ((events, outcome), ()) = futures::join!(turn, stop);
    assert!(is_queued(&events));
    assert_eq!((outcome.unwrap_err().kind(), alpha.turns()), (ErrorKind::Cancelled, 0));

    let kill = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        child.kill().unwrap();
        child.wait().unwrap();
    };
    let ((events, outcome), ()) = futures::join!(run(&router, TurnRequest::new("x")), kill);
    assert!(is_queued(&events));
    outcome.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_with_many_turns_does_not_keep_out_another() {
    let folder = tempfile::tempdir().unwrap();
    let alpha = fake("alpha", [Act::Slow(Duration::from_millis(20))]);
    let (many, one) = (bounded_in(folder.path(), 1, &alpha), bounded_in(folder.path(), 1, &alpha));
    let crowd = futures::future::join_all((0..60).map(|_| run(&many, TurnRequest::new("x"))));
    let late = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        run(&one, TurnRequest::new("x")).await.1.unwrap();
        alpha.turns()
    };
    let (_, turns_before) = futures::join!(crowd, late);
    assert!(turns_before < 40, "{turns_before} turns of the other process came first");
}
