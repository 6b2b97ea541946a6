//! What the tests of the sandbox share.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nexus_process::environment::Environment;
use nexus_process::sandbox::{Sandbox, SandboxCommand, SandboxError, SandboxLimits, SandboxOutcome};
use nexus_testkit::{child_test, effort};

/// Set where a machine without a sandbox is a failure.
const REQUIRED: &str = "NEXUS_TEST_SANDBOX";

/// Whether this machine has a sandbox. One that has none passes, and says why.
pub(crate) async fn has_sandbox() -> bool {
    match Sandbox::new().check().await {
        Ok(()) => true,
        Err(error) => {
            assert!(std::env::var_os(REQUIRED).is_none(), "there must be a sandbox here: {error}");
            eprintln!("SKIPPED, not shown here: {error}");
            false
        }
    }
}

/// Limits that no test means to reach.
pub(crate) fn limits() -> SandboxLimits {
    let mut limits = SandboxLimits::default();
    limits.wall = Duration::from_secs(120);
    limits.scratch_bytes = 64 << 20;
    limits
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new().limits(limits())
}

pub(crate) fn shell(script: &str) -> SandboxCommand {
    SandboxCommand::new(["/bin/sh", "-c", script])
}

/// Runs a script, which must end well, and gives what it wrote.
pub(crate) async fn said(sandbox: &Sandbox, script: &str) -> String {
    let outcome = ran(sandbox, shell(script)).await;
    assert!(outcome.is_success(), "{outcome:?}\n{}\n{}", outcome.stdout.text(), outcome.stderr.text());
    outcome.stdout.text()
}

pub(crate) async fn ran(sandbox: &Sandbox, command: SandboxCommand) -> SandboxOutcome {
    sandbox.run(command).await.unwrap_or_else(|error| panic!("{error}\n{error:?}"))
}

pub(crate) async fn refused(sandbox: &Sandbox, command: SandboxCommand) -> SandboxError {
    match sandbox.run(command).await {
        Ok(outcome) => panic!("it ran: {outcome:?}\n{}", outcome.stdout.text()),
        Err(error) => error,
    }
}

pub(crate) fn variables(all: &[(&str, &str)]) -> Environment {
    let mut environment = Environment::empty();
    for (name, value) in all {
        environment.set(*name, *value).unwrap();
    }
    environment
}

/// A duration for `sleep` that is longer than any run may take, and by which the processes of this test program are known.
pub(crate) fn word(number: u32) -> String {
    format!("314.{number}{:07}", std::process::id())
}

/// How many processes of the machine have `word` in their arguments.
pub(crate) fn alive_with(word: &str) -> usize {
    let has = |entry: std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.path() != Path::new("/proc/self"))
        .map(has)
        .filter(|has| *has)
        .count()
}

/// Fails unless the processes with `word` in their arguments go.
pub(crate) async fn assert_gone(word: &str) {
    for _ in 0..6000 {
        if alive_with(word) == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} processes with {word:?} are left", alive_with(word));
}

/// Like [`child_test::runs_alone_through`], where this machine has a sandbox, with a launcher that works in a folder of its
/// own. The other process looks for no sandbox, since there may be none for it.
pub(crate) async fn runs_alone_through<T>(launcher: impl FnOnce(&Path) -> Command, test: T) -> bool {
    const IS_LAUNCHED: &str = "NEXUS_TEST_IS_LAUNCHED";
    if std::env::var_os(IS_LAUNCHED).is_some() {
        return true;
    }
    if !has_sandbox().await {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut launcher = launcher(folder.path());
    launcher.env(IS_LAUNCHED, "1");
    child_test::runs_alone_through(launcher, test)
}

/// The moments, in milliseconds, at which a run is ended: four of them by default.
pub(crate) fn moments(all: &[u64]) -> Vec<u64> {
    const DEFAULT: usize = 4;
    if effort::is_deep() || all.len() <= DEFAULT {
        return all.to_vec();
    }
    (0..DEFAULT).map(|number| all[number * (all.len() - 1) / (DEFAULT - 1)]).collect()
}
