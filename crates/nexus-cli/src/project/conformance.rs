//! `nexus project conformance`: tests a server of the eleven tools against the fixtures.

use std::{fs, path::PathBuf, process::ExitCode};

use nexus_project::conformance::{FIXTURES, FixtureFile, ServerCommand, run as run_file};
use schemars::JsonSchema;
use serde::Serialize;

use super::judged;
use crate::{
    command_error::CommandError,
    output::{AnswerWriter, complain, printable, say},
};

/// Result of testing a server against the fixtures.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ConformanceOutcome {
    /// Number of fixtures that the server passed.
    passed: usize,
    /// Fixtures that the server failed.
    failures: Vec<FailedFixture>,
}

/// Fixture that a server did not pass.
#[derive(Debug, Serialize, JsonSchema)]
struct FailedFixture {
    /// The file of the fixture.
    file: String,
    /// The fixture.
    fixture: String,
    /// The step at which it failed.
    step: usize,
    /// Differences from the expected result.
    faults: Vec<String>,
}

pub(super) async fn run(
    out: AnswerWriter,
    server: &str,
    prefix: String,
    files: &[PathBuf],
) -> Result<ExitCode, CommandError> {
    let mut words = server.split_whitespace().map(str::to_owned);
    let Some(program) = words.next() else {
        return Err(CommandError::usage("--server does not name a program"));
    };
    let command = ServerCommand { program: found(program)?, arguments: words.collect(), prefix };
    let mut passed = 0;
    let mut failures = Vec::new();
    for (name, text) in texts(files)? {
        let file = FixtureFile::read(&name, &text).map_err(CommandError::usage)?;
        let report = run_file(&command, &file).await.map_err(|error| {
            CommandError::failed(format_args!("a folder for a project cannot be created: {error}"))
        })?;
        passed += report.passed;
        if !out.is_json() {
            say(format_args!("{name}: {} of {}", report.passed, file.fixtures.len()));
        }
        for failure in report.failures {
            if !out.is_json() {
                say(format_args!("  FAILED {} (step {})", printable(&failure.fixture), failure.step));
                failure.faults.iter().for_each(|fault| say(format_args!("    {}", printable(fault))));
            }
            failures.push(FailedFixture {
                file: name.clone(),
                fixture: failure.fixture,
                step: failure.step,
                faults: failure.faults,
            });
        }
        if report.is_abandoned {
            complain(
                "the server did not answer in time twice in succession: the remaining fixtures were not run",
            );
            break;
        }
    }
    let (failed, outcome) = (failures.len(), ConformanceOutcome { passed, failures });
    out.line(&outcome, format_args!("{passed} passed, {failed} failed"));
    Ok(judged(failed == 0))
}

/// Resolves a relative path from the current folder, not from the projects in which the server is started.
fn found(program: String) -> Result<String, CommandError> {
    if !program.contains('/') {
        return Ok(program);
    }
    match fs::canonicalize(&program) {
        Ok(path) => Ok(path.to_string_lossy().into_owned()),
        Err(error) => Err(CommandError::usage(format_args!("{program} cannot be started: {error}"))),
    }
}

fn texts(files: &[PathBuf]) -> Result<Vec<(String, String)>, CommandError> {
    if files.is_empty() {
        return Ok(FIXTURES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect());
    }
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).map_err(|error| {
            CommandError::usage(format_args!("{} cannot be read: {error}", path.display()))
        })?;
        Ok((path.display().to_string(), text))
    };
    files.iter().map(read).collect()
}
