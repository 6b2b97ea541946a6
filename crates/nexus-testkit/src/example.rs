//! Runs an example as a newcomer does: no login, no CLI, no network.

use std::{
    env,
    process::{Command, Output},
};

/// Runs the built example `name`. Of the caller's environment it gets the search path only.
///
/// # Panics
///
/// Panics if it is not built, which `cargo test --workspace` does, or if it cannot be started.
#[track_caller]
pub fn run(name: &str, arguments: &[&str]) -> Output {
    let test =
        env::current_exe().unwrap_or_else(|error| panic!("this test program cannot be found: {error}"));
    // target/debug/deps/TEST
    let built =
        test.ancestors().nth(2).unwrap_or_else(|| panic!("{} has no folder of examples", test.display()));
    let program = built.join("examples").join(name);
    assert!(
        program.exists(),
        "{} is not built; `cargo build --workspace --examples` builds it",
        program.display()
    );
    let home = tempfile::tempdir().unwrap_or_else(|error| panic!("no temporary folder: {error}"));
    Command::new(&program)
        .args(arguments)
        .current_dir(home.path())
        .env_clear()
        .env("PATH", env::var_os("PATH").unwrap_or_default())
        .env("HOME", home.path())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// Runs the example `name` on the simulator, and returns what it printed.
///
/// # Panics
///
/// Panics if it fails, or if its first line does not state that no login is needed.
#[track_caller]
pub fn shown(name: &str) -> String {
    let output = run(name, &[]);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name} failed\n{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("No login needed"), "{name} does not print its address:\n{stdout}");
    stdout
}

/// Fails unless each of `parts` is in `shown`.
///
/// # Panics
///
/// Panics with the missing part.
#[track_caller]
pub fn assert_shows(shown: &str, parts: &[&str]) {
    for part in parts {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
}
