//! The first processes that run with the user's own login do not start at once.
//!
//! The program is a script that answers when the test lets it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use nexus_backends::claude::cli::ClaudeCli;
use nexus_core::{ErrorKind, EventEnvelope, ToolAccess, TurnEvent, TurnHost, TurnRequest, TurnResult};
use serde_json::{Value, json};

use crate::support::player::Player;

const ANSWER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts/claude/plain_argv.jsonl");

/// How long a turn waits for another at most.
const ALONE: Duration = Duration::from_secs(15);

/// A program of which each process is a file `process.NAME` in the folder `processes`. It is answered, or fails with
/// `code`, once there is a file `go` or `process.NAME.go`.
struct Program {
    player: Player,
    /// How often a turn said that it waits.
    told: AtomicUsize,
}

impl Program {
    fn new(settings: Value, code: u32) -> Self {
        let script = format!(
            "folder=\"${{0%/*}}/processes\"\n\
             process=$(mktemp \"$folder/process.XXXXXX\")\n\
             until [ -e \"$folder/go\" ] || [ -e \"$process.go\" ]; do sleep 0.02; done\n\
             [ {code} = 0 ] || exit {code}\n\
             cat '{ANSWER}'"
        );
        let player = Player::new(&ClaudeCli, "2.1.197 (Claude Code)", settings, &script);
        fs::create_dir(player.folder.path().join("processes")).unwrap();
        Self { player, told: AtomicUsize::new(0) }
    }

    fn folder(&self) -> PathBuf {
        self.player.folder.path().join("processes")
    }

    /// Processes that have started.
    fn started(&self) -> Vec<PathBuf> {
        let paths = fs::read_dir(self.folder()).unwrap().map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|name| name != "go")).collect()
    }

    fn told(&self) -> usize {
        self.told.load(Ordering::SeqCst)
    }

    /// Lets these processes be answered.
    fn let_go(&self, processes: &[PathBuf]) {
        for process in processes {
            fs::write(format!("{}.go", process.display()), "").unwrap();
        }
    }

    /// Lets all processes be answered, also those to come.
    fn let_all_go(&self) {
        fs::write(self.folder().join("go"), "").unwrap();
    }

    /// Runs a turn: how it ended, and how often it said that it waits.
    async fn turn(&self) -> (Result<TurnResult, ErrorKind>, usize) {
        let mut told = 0;
        let mut sink = |envelope: EventEnvelope| {
            if matches!(envelope.event, TurnEvent::Warning(warning) if warning.text.contains("waits for it"))
            {
                told += 1;
                self.told.fetch_add(1, Ordering::SeqCst);
            }
        };
        // The answer that was recorded had every tool.
        let request = TurnRequest::new("Hello.").with_tool_access(ToolAccess::Unrestricted);
        let outcome = self.player.backend.run_turn(request, TurnHost::new(), &mut sink).await;
        (outcome.map_err(|error| error.kind()), told)
    }

    /// Eight turns at once.
    async fn turns(&self) -> Vec<(Result<TurnResult, ErrorKind>, usize)> {
        futures::future::join_all((0..8).map(|_| self.turn())).await
    }

    /// Waits until one of eight processes has started and the others have said that they wait, then lets the first go and
    /// waits until all others have started, of which none is answered meanwhile.
    async fn one_goes_alone_and_then_all_go(&self) {
        let began = Instant::now();
        until("one goes and seven wait", || self.told() + self.started().len() >= 8).await;
        let first = self.started();
        // On a machine that takes so long for a few processes, the patience of those that wait may be over.
        assert!(first.len() == 1 || began.elapsed() >= ALONE, "{first:?}");
        self.let_go(&first);
        until("then all go", || self.started().len() == 8).await;
        self.let_all_go();
    }
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(90), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_eight_first_turns_one_goes_alone_and_then_all_go() {
    let program = Program::new(json!({}), 0);
    let (outcomes, ()) = tokio::join!(program.turns(), program.one_goes_alone_and_then_all_go());
    assert!(outcomes.iter().all(|(outcome, _)| outcome.is_ok()), "{outcomes:?}");

    // For some minutes nobody waits any more.
    fs::remove_file(program.folder().join("go")).unwrap();
    let all_go = async {
        until("all go", || program.started().len() == 16).await;
        program.let_all_go();
    };
    let (outcomes, ()) = tokio::join!(program.turns(), all_go);
    assert!(outcomes.iter().all(|(outcome, told)| outcome.is_ok() && *told == 0), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_of_the_configuration_waits_for_nobody() {
    let program = Program::new(json!({ "credential": { "env": "TOKEN" }, "billing": "plan" }), 0);
    let all_go = async {
        until("all go", || program.started().len() == 8).await;
        program.let_all_go();
    };
    let (outcomes, ()) = tokio::join!(program.turns(), all_go);
    assert!(outcomes.iter().all(|(outcome, told)| outcome.is_ok() && *told == 0), "{outcomes:?}");
    assert!(!program.player.folder.path().join("nexus/startup").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_one_that_failed_all_go_at_once() {
    let program = Program::new(json!({}), 1);
    let (outcomes, ()) = tokio::join!(program.turns(), program.one_goes_alone_and_then_all_go());
    assert!(outcomes.iter().all(|(outcome, _)| outcome.is_err()), "{outcomes:?}");
    assert!(outcomes.iter().all(|(_, told)| *told <= 1), "a turn says once that it waits: {outcomes:?}");
}

/// Another process that goes alone, for as long as this is held.
struct Other(Child);

impl Other {
    fn goes_alone(nexus_home: &Path) -> Self {
        let folder = nexus_home.join("startup");
        fs::create_dir_all(&folder).unwrap();
        let script = "exec 9> \"$0\"; flock 9 && touch \"$0.held\" && exec sleep 300";
        let lock = folder.join("claude-cli.lock");
        let child = Command::new("sh").args(["-c", script]).arg(&lock).spawn().unwrap();
        let held = PathBuf::from(format!("{}.held", lock.display()));
        let began = Instant::now();
        while !held.exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "the lock is not held");
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
    let program = Program::new(json!({}), 0);
    program.let_all_go();
    let began = Instant::now();
    let other = Other::goes_alone(&program.player.folder.path().join("nexus"));
    let ends = async {
        until("it waits", || program.told() + program.started().len() > 0).await;
        assert!(program.started().is_empty() || began.elapsed() >= ALONE);
        drop(other);
    };
    let ((outcome, _), ()) = tokio::join!(program.turn(), ends);
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(program.started().len(), 1);
}
