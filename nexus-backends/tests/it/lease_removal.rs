//! What was lent to a child is gone however its turn ends.
//!
//! The program is a script in the place of Grok's, which leaves its credential where it was put.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use nexus_backends::grok::cli::GrokCli;
use nexus_core::{
    BackendKind as _, BuildContext, CancelToken, ErrorKind, ExecutionBackend, TurnError, TurnHost,
    TurnRequest, TurnResult,
};
use nexus_testkit::child_test;
use serde_json::json;

use crate::support::program::write_script;

const TOKEN: &str = "canary-of-what-was-lent";

/// Tells the program that it is the host that is to be killed, and where it works.
const HOST: &str = "NEXUS_TEST_HOST_OF_A_LEASE";

/// A program that says its version, and else runs `script` in the shell.
fn backend(folder: &Path, script: &str) -> Arc<dyn ExecutionBackend> {
    let program = folder.join("grok");
    let unfinished = folder.join(format!("grok.{}", std::process::id()));
    let version = "if [ \"$1\" = --version ]; then echo 'grok 1.0.41 (0)'; exit; fi";
    write_script(&unfinished, &format!("{version}\n{script}"));
    fs::rename(&unfinished, &program).unwrap();
    let environment = BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("TOKEN".to_owned(), TOKEN.to_owned()),
    ]);
    let context =
        BuildContext::in_home(folder.join("nexus")).with_base_directory(folder).with_environment(environment);
    let settings = json!({ "executable": program, "credential": { "env": "TOKEN" } });
    GrokCli.build("grok-cli".into(), settings.as_object().unwrap(), &context).unwrap()
}

/// The files below `$NEXUS_HOME` that hold the token.
fn holding(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.join("nexus")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(TOKEN) {
                found.push(path);
            }
        }
    }
    found
}

fn until_it_is_lent(folder: &Path) -> PathBuf {
    let began = Instant::now();
    loop {
        if let ([path], true) = (holding(folder).as_slice(), folder.join("started").exists()) {
            return path.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing was lent");
        std::thread::sleep(Duration::from_millis(10));
    }
}

const WAITS: &str = "touch \"${0%/*}/started\"; sleep 300";

async fn run(backend: &dyn ExecutionBackend, cancel: CancelToken) -> Result<TurnResult, TurnError> {
    let mut sink = |_: nexus_core::EventEnvelope| {};
    backend.run_turn(TurnRequest::new("Hello."), TurnHost::new().with_cancel(cancel), &mut sink).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_dropped_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(folder.path(), WAITS);
    let turn = tokio::spawn(async move { run(&*backend, CancelToken::new()).await });
    let path = until_it_is_lent(folder.path());
    // Under another name, outside of the run's home, which is removed as a whole.
    let link = folder.path().join("nexus/link");
    fs::hard_link(path, &link).unwrap();
    assert_eq!(holding(folder.path()).len(), 2);
    turn.abort();
    assert!(turn.await.unwrap_err().is_cancelled());
    assert_eq!(holding(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(fs::read(link).unwrap(), b"", "what it names was emptied");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_is_cancelled_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(folder.path(), WAITS);
    let cancel = CancelToken::new();
    let until_then = {
        let (cancel, folder) = (cancel.clone(), folder.path().to_owned());
        tokio::task::spawn_blocking(move || {
            until_it_is_lent(&folder);
            cancel.cancel();
        })
    };
    let error = run(&*backend, cancel).await.unwrap_err();
    until_then.await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(holding(folder.path()), Vec::<PathBuf>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_fails_takes_it_back() {
    let folder = tempfile::tempdir().unwrap();
    let look = "cat \"$GROK_HOME/auth.json\" > \"${0%/*}/lent\"; exit 9";
    let backend = backend(folder.path(), look);
    assert!(run(&*backend, CancelToken::new()).await.is_err());
    assert!(fs::read_to_string(folder.path().join("lent")).unwrap().contains(TOKEN), "it was lent");
    assert_eq!(holding(folder.path()), Vec::<PathBuf>::new());
}

/// Plays the host that `what_a_killed_host_had_lent_is_gone_after_the_next_start` kills.
#[tokio::test]
async fn host_that_is_killed() {
    let Some(folder) = std::env::var_os(HOST) else { return };
    let backend = backend(Path::new(&folder), WAITS);
    let outcome = run(&*backend, CancelToken::new()).await;
    panic!("the turn was to run until the host is killed: {outcome:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_host_had_lent_is_gone_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut host = child_test::command(host_that_is_killed)
        .env(HOST, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let path = until_it_is_lent(folder.path());
    host.kill().unwrap();
    host.wait().unwrap();
    assert!(path.exists(), "nobody was left to take it back");

    // The next host's first turn, however it ends.
    let backend = backend(folder.path(), "exit 9");
    assert!(run(&*backend, CancelToken::new()).await.is_err());
    assert_eq!(holding(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(fs::read_dir(folder.path().join("nexus/tmp")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(folder.path().join("nexus/runs")).unwrap().count(), 0);
}
