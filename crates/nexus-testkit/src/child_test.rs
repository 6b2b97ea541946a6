//! Runs one test of the current test program in its own process.
//!
//! A test that changes its process (resource limits, signals, the current folder, the environment, a global subscriber) or
//! counts what its process has open runs alone, since other tests share the program:
//!
//! ```ignore
//! #[test]
//! fn a_low_limit_of_files_is_reported() {
//!     if !child_test::runs_alone(a_low_limit_of_files_is_reported) {
//!         return;
//!     }
//!     setrlimit(...);
//! }
//! ```
//!
//! A test that needs other processes, such as one that kills a writer, starts them with [`command`]. The started test
//! plays its role if its own environment variable is set, and returns at once if not.
//!
//! A test is named by its function, so that a moved or renamed test cannot leave a name behind that matches
//! nothing: libtest would run no test and exit with 0. Before a process is started, the program lists the tests that the name
//! selects. Any number other than one is a failure.

use std::{
    any::type_name,
    collections::BTreeSet,
    env,
    process::{Command, Output, Stdio},
    sync::{Mutex, PoisonError},
};

/// Names the test that a process started by [`runs_alone`] runs.
const ALONE: &str = "NEXUS_TEST_ALONE";

/// Returns true if this process was started to run `test` alone. If not, first runs `test` in such a process.
///
/// # Panics
///
/// If `test` fails in the other process, or did not run there exactly once.
#[track_caller]
pub fn runs_alone<T>(test: T) -> bool {
    is_child::<T>() || passes_in(command(test), &name_of::<T>())
}

/// Like [`runs_alone`], with a process started by `launcher`, which executes its trailing arguments.
///
/// # Panics
///
/// Like [`runs_alone`], or if `launcher` cannot be started.
#[track_caller]
pub fn runs_alone_through<T>(launcher: Command, test: T) -> bool {
    is_child::<T>() || passes_in(through(launcher, test), &name_of::<T>())
}

fn is_child<T>() -> bool {
    env::var_os(ALONE).is_some_and(|alone| alone == name_of::<T>().as_str())
}

/// Runs a test in another process and fails unless it passes. Always returns `false`.
#[track_caller]
fn passes_in(mut command: Command, name: &str) -> bool {
    let output = command.env(ALONE, name).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{name} cannot be started again: {error}"));
    assert_passed(name, &output);
    false
}

/// Returns a command that starts this program again to run `test` and nothing else, with its output shown.
///
/// # Panics
///
/// If `test` is not exactly one test of this program.
#[track_caller]
pub fn command<T>(test: T) -> Command {
    let mut command = Command::new(program());
    command.args(arguments(test));
    command
}

/// Like [`command`], started by `launcher`, which executes its trailing arguments.
///
/// # Panics
///
/// Like [`command`].
#[track_caller]
pub fn through<T>(mut launcher: Command, test: T) -> Command {
    launcher.arg(program()).args(arguments(test));
    launcher
}

/// Returns the arguments that make this program run `test` and nothing else, with its output shown.
///
/// # Panics
///
/// If `test` is not exactly one test of this program.
#[track_caller]
pub fn arguments<T>(_test: T) -> [String; 5] {
    static CHECKED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    let name = name_of::<T>();
    // The test that a caller names runs even if ordinary runs ignore it.
    let selection = [name.clone(), "--exact".to_owned(), "--include-ignored".to_owned()];
    // Two threads may both check one name, which does no harm.
    if !CHECKED.lock().unwrap_or_else(PoisonError::into_inner).contains(&name) {
        let listed = Command::new(program()).args(&selection).arg("--list").stdin(Stdio::null()).output();
        let listed = listed.unwrap_or_else(|error| panic!("the tests cannot be listed: {error}"));
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let tests: Vec<&str> = listed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        assert!(tests == [name.as_str()], "{name} is to be one test of this program, and selects {tests:?}");
        CHECKED.lock().unwrap_or_else(PoisonError::into_inner).insert(name);
    }
    let [name, exact, ignored] = selection;
    [name, exact, ignored, "--nocapture".to_owned(), "--test-threads=1".to_owned()]
}

/// Writes a program that runs `test` with the program's last argument in the environment variable `name`. For code under test
/// that starts a program of the caller.
///
/// Another process writes the file. A child of this process could inherit a file that is open for writing, and such a file
/// cannot be executed.
///
/// # Panics
///
/// If the file cannot be written, or like [`command`].
#[track_caller]
pub fn install<T>(path: &std::path::Path, test: T, name: &str) {
    let arguments = arguments(test).join(" ");
    let program = program();
    // The empty loop leaves the last argument in `last`.
    let text = format!(
        "#!/bin/sh\nfor last; do :; done\n{name}=\"$last\" exec '{}' {arguments}\n",
        program.display()
    );
    let mut writer = Command::new("/bin/sh");
    writer.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    let written = writer.status();
    assert!(written.is_ok_and(|status| status.success()), "{} cannot be written", path.display());
}

/// Asserts that `output` comes from a process that ran exactly one test, which passed. For processes of [`command`] that
/// end by themselves.
///
/// # Panics
///
/// Panics with the output of the process.
#[track_caller]
pub fn assert_passed(name: &str, output: &Output) {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && stdout.contains("test result: ok. 1 passed; 0 failed"),
        "{name} in a process of its own: {}\n{stdout}\n{stderr}",
        output.status,
    );
}

fn program() -> std::path::PathBuf {
    env::current_exe().unwrap_or_else(|error| panic!("this test program cannot be found: {error}"))
}

/// Returns the name that libtest gives to the function with the type `T`: its path without the crate.
#[track_caller]
fn name_of<T>() -> String {
    let path = type_name::<T>();
    match path.split_once("::") {
        Some((_, name)) => name.to_owned(),
        None => panic!("{path} is not the type of a test function"),
    }
}
