//! Programs in the sandbox that exchange lines with the caller.

use std::time::Duration;

use nexus_process::sandbox::{SandboxCommand, SandboxError};
use nexus_process::spawn::Stop;

use super::support::{has_sandbox, sandbox, shell};

#[tokio::test]
async fn a_prepared_program_exchanges_lines_and_is_ended_by_the_caller() {
    if !has_sandbox().await {
        return;
    }
    let (invocation, support) =
        sandbox().prepare(shell("while read line; do echo \"got $line\"; done")).await.unwrap();
    let process = invocation.spawn().unwrap();
    for word in ["one", "two"] {
        process.stdin().write(format!("{word}\n")).await.unwrap();
        assert_eq!(process.next_line().await.unwrap().bytes, format!("got {word}"));
    }
    let exit = process.stop(Stop::new().terminate_grace(Duration::ZERO)).await;
    assert!(support.start_failure(&exit, &process.stderr_tail()).is_none(), "{exit:?}");
    assert_eq!(exit.survivors.len(), 0);
}

#[tokio::test]
async fn a_prepared_program_that_does_not_start_has_a_reason() {
    if !has_sandbox().await {
        return;
    }
    let cases = [
        (SandboxCommand::new(["no-such-program"]), "DidNotStart"),
        (shell(":").folder("/no/such/folder"), "FolderMissing"),
    ];
    for (command, kind) in cases {
        let (invocation, support) = sandbox().prepare(command).await.unwrap();
        let process = invocation.spawn().unwrap();
        let exit = process.wait().await;
        let failure = support.start_failure(&exit, &process.stderr_tail()).unwrap();
        assert!(format!("{failure:?}").starts_with(kind), "{failure:?}");
    }
    // A program that was started and then failed is not such a case, even if it writes like bubblewrap.
    let (invocation, support) = sandbox().prepare(shell("echo 'bwrap: execvp x' >&2; exit 1")).await.unwrap();
    let process = invocation.spawn().unwrap();
    let exit = process.wait().await;
    assert!(support.start_failure(&exit, &process.stderr_tail()).is_none());
}

#[tokio::test]
async fn a_program_cannot_be_prepared_without_bubblewrap() {
    let error = sandbox().bubblewrap("/nowhere/bwrap").prepare(shell(":")).await.unwrap_err();
    assert!(matches!(error, SandboxError::BubblewrapMissing), "{error:?}");
}
