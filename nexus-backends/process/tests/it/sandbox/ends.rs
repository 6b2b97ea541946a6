//! However a run ends, nothing is left of it.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nexus_core::CancelToken;
use nexus_process::run_registry::RunEntry;
use nexus_process::sandbox::{SandboxCommand, SandboxEnd};
use nexus_process::spawn::ExitStatus;
use nexus_testkit::child_test;

use super::support::{alive_with, assert_gone, has_sandbox, moments, ran, sandbox, shell, variables, word};

/// Starts what hides, then stays.
fn hiding(word: &str) -> String {
    format!(
        "(setsid sleep {word} &) ; trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM; sleep {word}' & echo up; sleep {word}"
    )
}

#[tokio::test]
async fn status_and_output_are_those_of_the_program() {
    if !has_sandbox().await {
        return;
    }
    for (script, status) in [
        ("exit 0", ExitStatus::Code(0)),
        ("exit 1", ExitStatus::Code(1)),
        ("exit 126", ExitStatus::Code(126)),
        ("exit 127", ExitStatus::Code(127)),
        ("kill -KILL $$", ExitStatus::Signal(9)),
        ("kill -SEGV $$", ExitStatus::Signal(11)),
        ("kill -TERM $$", ExitStatus::Code(128 + 15)),
        ("kill -9 1; kill -9 -1 2>/dev/null; exit 3", ExitStatus::Code(3)),
    ] {
        let outcome = ran(&sandbox(), shell(&format!("echo out; echo err >&2; {script}"))).await;
        assert_eq!((outcome.end, outcome.status), (SandboxEnd::Exited, status), "{script}");
        assert_eq!(
            (outcome.stdout.text(), outcome.stderr.text()),
            ("out\n".to_owned(), "err\n".to_owned()),
            "{script}"
        );
    }
}

#[tokio::test]
async fn input_is_given_whole_and_then_ends() {
    if !has_sandbox().await {
        return;
    }
    let megabytes = vec![b'x'; 3 << 20];
    let outcome = ran(&sandbox(), shell("wc -c").stdin(megabytes.clone())).await;
    assert_eq!(outcome.stdout.text().trim(), "3145728");
    assert!(ran(&sandbox(), shell("cat")).await.stdout.text().is_empty());
    // Who does not read it ends all the same.
    assert!(ran(&sandbox(), shell("exec 0<&-; echo x").stdin(megabytes)).await.is_success());
}

#[tokio::test]
async fn a_dropped_future_leaves_nobody() {
    if !has_sandbox().await {
        return;
    }
    let word = word(1);
    // At any moment of the start, too.
    for millis in moments(&[0, 1, 2, 3, 5, 8, 13, 21, 400]) {
        let sandbox = sandbox();
        let mut run = Box::pin(sandbox.run(shell(&hiding(&word))));
        assert!(tokio::time::timeout(Duration::from_millis(millis), &mut run).await.is_err());
        let began = Instant::now();
        drop(run);
        // The drop itself waits for a second until they are gone.
        let left = alive_with(&word);
        assert!(left == 0 || began.elapsed() >= Duration::from_secs(1), "{millis} ms: {left}");
        assert_gone(&word).await;
    }
}

#[tokio::test]
async fn a_cancelled_run_keeps_what_was_said() {
    if !has_sandbox().await {
        return;
    }
    let token = CancelToken::new();
    let folder = tempfile::tempdir().unwrap();
    let word = word(2);
    let script = hiding(&word).replace("echo up", "echo up; touch /tree/up");
    let (sandbox, command) =
        (sandbox().writable(folder.path(), "/tree"), shell(&script).cancel(token.clone()));
    let run = tokio::spawn(async move { sandbox.run(command).await.unwrap() });
    while !folder.path().join("up").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    token.cancel();
    let outcome = run.await.unwrap();
    assert_eq!((outcome.end, outcome.status), (SandboxEnd::Cancelled, ExitStatus::Signal(9)));
    assert_eq!(outcome.stdout.text(), "up\n");
    assert_eq!(alive_with(&word), 0);
}

/// Who was left by its parent ends with the main process, and does not hold the answer back.
#[tokio::test]
async fn what_is_left_behind_ends_with_the_program() {
    if !has_sandbox().await {
        return;
    }
    let word = word(3);
    // They would sleep for longer than the run may take.
    let outcome =
        ran(&sandbox(), shell(&format!("(setsid sleep {word} &) ; (sleep {word} &) ; echo x"))).await;
    assert!(outcome.is_success(), "{outcome:?}");
    assert_gone(&word).await;
}

#[tokio::test]
async fn orphans_are_reaped_inside() {
    if !has_sandbox().await {
        return;
    }
    let script = "i=0; while [ $i -lt 60 ]; do i=$((i+1)); (true & ) ; done
        while for stat in /proc/[0-9]*/stat; do cut -d' ' -f3 $stat; done 2>/dev/null | grep -q Z; do sleep 0.05; done
        echo done";
    let outcome = ran(&sandbox(), shell(script)).await;
    assert_eq!(outcome.stdout.text(), "done\n", "{outcome:?}");
}

/// Tells the host that is killed by which word its processes are known.
const HOST: &str = "NEXUS_TEST_HOST";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_leaves_nobody() {
    if let Ok(word) = std::env::var(HOST) {
        let _ = sandbox().run(shell(&hiding(&word))).await;
        return;
    }
    if !has_sandbox().await {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let word = word(4);
    // At any moment of the start, too. `timeout` kills the host alone, not its group.
    for millis in moments(&[2, 5, 8, 12, 15, 18, 25, 40, 60, 500]) {
        let mut launcher = Command::new("timeout");
        launcher.args(["--foreground", "--signal=KILL", &format!("0.{millis:03}")]);
        // What it leaves on the disk, having no entry in a run registry.
        launcher.env("TMPDIR", folder.path()).env(HOST, &word).stdout(Stdio::null()).stderr(Stdio::null());
        let kind = sandbox().run(shell(":")).await.unwrap().containment;
        child_test::through(launcher, a_killed_host_leaves_nobody).status().unwrap();
        if kind >= nexus_process::containment::Containment::UserNamespace {
            assert_gone(&word).await;
        }
    }
}

#[tokio::test]
async fn nothing_is_left_on_the_disk() {
    if !has_sandbox().await {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let entry = RunEntry::begin(home.path()).unwrap();
    let outcome = ran(&sandbox(), SandboxCommand::new(["true"]).entry(&entry)).await;
    assert!(outcome.is_success());
    assert_eq!(fs::read_dir(home.path().join("tmp")).unwrap().count(), 0);
    drop(entry);
    assert_eq!(fs::read_dir(home.path().join("runs")).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_contains_the_variables_of_a_program_that_runs() {
    if !has_sandbox().await {
        return;
    }
    let (home, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let entry = RunEntry::begin(home.path()).unwrap();
    let script = "echo \"$TOKEN\" >started; until [ -e go ]; do sleep 0.01; done";
    let command = shell(script)
        .folder(shared.path())
        .environment(variables(&[("TOKEN", "a-secret-value")]))
        .entry(&entry);
    let sandbox = sandbox().writable(shared.path(), shared.path());
    let run = tokio::spawn(async move { ran(&sandbox, command).await });
    let started = shared.path().join("started");
    let waited = Instant::now();
    while fs::read(&started).unwrap_or_default() != b"a-secret-value\n" {
        assert!(waited.elapsed() < Duration::from_secs(60) && !run.is_finished());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut found = vec![home.path().to_owned()];
    let mut files = 0;
    while let Some(path) = found.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => found.extend(entries.map(|entry| entry.unwrap().path())),
            Err(_) => {
                files += 1;
                let content = fs::read(&path).unwrap_or_default();
                let has_secret = content.windows(14).any(|part| part == b"a-secret-value");
                assert!(!has_secret, "{}", path.display());
            }
        }
    }
    assert!(files > 0, "the run has files");
    fs::write(shared.path().join("go"), "").unwrap();
    assert!(run.await.unwrap().is_success());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_at_once_keep_apart() {
    if !has_sandbox().await {
        return;
    }
    let runs: Vec<_> = (0..24)
        .map(|number| {
            let script = format!(
                "echo {number} >/tmp/x; echo {number} >\"$HOME/x\"; sleep 0.2; cat /tmp/x \"$HOME/x\""
            );
            tokio::spawn(async move { ran(&sandbox(), shell(&script)).await.stdout.text() })
        })
        .collect();
    for (number, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap(), format!("{number}\n{number}\n"));
    }
}
