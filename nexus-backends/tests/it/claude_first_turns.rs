//! The first processes that run with the user's own login do not start at once.
//!
//! The program is a script that notes when it starts, when it is answered, and when it ends.

use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_core::{
    CancelToken, ErrorKind, IdleLimits, Limit, Limits, Phase, ToolAccess, TurnEvent, TurnHost, TurnRequest,
};
use serde_json::{Value, json};

use crate::support::{player::Player, ran::Ran};

const ANSWER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude/plain_argv.jsonl");

/// Every process renews its login for so many seconds, is answered or fails with `code`, and ends a while later.
fn program(settings: Value, seconds: &str, code: u32) -> Player {
    let note = |word: &str| format!("echo \"{word} $$ $(date +%s%N)\" >> \"${{0%/*}}/notes\"");
    let script = format!(
        "{}\nsleep {seconds}\n{}\n[ {code} = 0 ] || exit {code}\ncat '{ANSWER}'\nsleep 0.5\n{}",
        note("start"),
        note("answer"),
        note("end")
    );
    Player::new(&ClaudeCli, "2.1.197 (Claude Code)", settings, &script)
}

/// When each process started and was answered, in nanoseconds, by its start.
fn times(player: &Player) -> Vec<(u64, u64)> {
    let notes = fs::read_to_string(player.folder.path().join("notes")).unwrap_or_default();
    let mut starts = BTreeMap::new();
    let mut found = Vec::new();
    for line in notes.lines() {
        let words: Vec<_> = line.split(' ').collect();
        let time: u64 = words[2].parse().unwrap();
        match words[0] {
            "start" => drop(starts.insert(words[1], time)),
            "answer" => found.push((starts[words[1]], time)),
            _ => {}
        }
    }
    found.sort_unstable();
    found
}

/// The answer that was recorded had every tool.
fn hello() -> TurnRequest {
    TurnRequest::new("Hello.").with_tool_access(ToolAccess::Unrestricted)
}

async fn eight_at_once(player: &Player) -> Vec<Result<String, ErrorKind>> {
    let turns = (0..8).map(|_| player.play(hello()));
    let ran = futures::future::join_all(turns).await;
    let outcomes = ran.into_iter().map(|ran| ran.outcome);
    outcomes.map(|outcome| outcome.map(|result| result.text).map_err(|error| error.kind())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_first_turns_one_goes_alone_and_then_all_go() {
    let player = program(json!({}), "0.5", 0);
    let outcomes = eight_at_once(&player).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let times = times(&player);
    assert_eq!(times.len(), 8);
    let first_answer = times[0].1;
    assert!(times[1..].iter().all(|(start, _)| *start > first_answer), "{times:?}");
    let earliest_answer = times[1..].iter().map(|(_, answer)| answer).min().unwrap();
    assert!(times[1..].iter().all(|(start, _)| start < earliest_answer), "then all at once: {times:?}");

    // For some minutes nobody waits any more.
    eight_at_once(&player).await;
    let times = self::times(&player).split_off(8);
    let earliest_answer = times.iter().map(|(_, answer)| answer).min().unwrap();
    assert!(times.len() == 8 && times.iter().all(|(start, _)| start < earliest_answer), "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_of_the_configuration_waits_for_nobody() {
    let player = program(json!({ "credential": { "env": "TOKEN" }, "billing": "plan" }), "0.5", 0);
    eight_at_once(&player).await;
    let times = times(&player);
    let earliest_answer = times.iter().map(|(_, answer)| answer).min().unwrap();
    assert!(times.len() == 8 && times.iter().all(|(start, _)| start < earliest_answer), "{times:?}");
    assert!(!player.folder.path().join("nexus/startup").exists());
}

/// What a turn tells of its wait.
fn told(ran: &Ran) -> usize {
    let is_told = |event: &&TurnEvent| matches!(event, TurnEvent::Warning(warning) if warning.text.contains("waits for it"));
    ran.events.iter().filter(is_told).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_one_that_failed_slowly_all_go_at_once() {
    let player = program(json!({}), "2", 1);
    let began = Instant::now();
    let ran = futures::future::join_all((0..8).map(|_| player.play(hello()))).await;
    assert!(ran.iter().all(|ran| ran.outcome.is_err()));
    // One after another they would take sixteen seconds.
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    let times = times(&player);
    assert_eq!(times.len(), 8);
    let (first_end, earliest_end) = (times[0].1, times[1..].iter().map(|(_, end)| *end).min().unwrap());
    assert!(times[1..].iter().all(|(start, _)| (first_end..earliest_end).contains(start)), "{times:?}");
    let mut counts: Vec<_> = ran.iter().map(told).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 1, 1, 1, 1, 1, 1, 1], "all but the first say once that they wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_no_silence_of_the_program() {
    let player = program(json!({}), "0.5", 0);
    let other = Other::goes_alone(&player);
    let ends = async {
        tokio::time::sleep(Duration::from_secs(6)).await;
        drop(other);
    };
    let mut request = hello();
    request.limits = Limits::new().with_idle(IdleLimits::none().with(Phase::Start, Duration::from_secs(4)));
    let (ran, ()) = tokio::join!(player.play(request), ends);
    assert!(ran.outcome.is_ok(), "{:?}", ran.outcome);
    assert_eq!(told(&ran), 1);
}

/// Another process that goes alone, for as long as this is held.
struct Other(Child);

impl Other {
    fn goes_alone(player: &Player) -> Self {
        let folder = player.folder.path().join("nexus/startup");
        fs::create_dir_all(&folder).unwrap();
        let script = "exec 9> \"$0\"; flock 9 && touch \"$0.held\" && exec sleep 60";
        let lock = folder.join("claude-cli.lock");
        let child = Command::new("sh").args(["-c", script]).arg(&lock).spawn().unwrap();
        let held = PathBuf::from(format!("{}.held", lock.display()));
        let began = Instant::now();
        while !held.exists() {
            assert!(began.elapsed() < Duration::from_secs(10), "the lock is not held");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_another_process_is_waited_for() {
    let player = program(json!({}), "0.5", 0);
    let other = Other::goes_alone(&player);
    let ends = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(times(&player).is_empty() && !player.folder.path().join("notes").exists());
        drop(other);
    };
    let (ran, ()) = tokio::join!(player.play(hello()), ends);
    assert!(ran.outcome.is_ok(), "{:?}", ran.outcome);
    assert_eq!(times(&player).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_can_be_cancelled_and_has_a_deadline() {
    let player = program(json!({}), "0.5", 0);
    let _other = Other::goes_alone(&player);
    let began = Instant::now();
    let cancel = CancelToken::new();
    let host = TurnHost::new().with_cancel(cancel.clone());
    let mut sink = |_: nexus_core::EventEnvelope| {};
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cancel.cancel();
    };
    let turn = player.backend.run_turn(hello(), host, &mut sink);
    let (outcome, ()) = tokio::join!(turn, cancelling);
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Cancelled);

    let mut request = hello();
    request.limits = Limits::new().with_deadline(Duration::from_millis(300));
    let error = player.play(request).await.outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitReached(Limit::Deadline));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!player.folder.path().join("notes").exists(), "no process was started");
}
