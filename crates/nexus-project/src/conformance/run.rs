//! Runs fixtures against a server.

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use serde_json::Value;

use super::{
    fixture::{Action, Call, Fixture, FixtureFile, Postcondition, Precondition},
    judge,
    server::{CallReply, ServerCommand, ServerError, TestedServer},
};

/// A fixture that a server does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureFailure {
    /// The fixture's name.
    pub fixture: String,
    /// Number of the failed step, from 1. 0 if the fixture failed before its first step.
    pub step: usize,
    /// Faults, one sentence each.
    pub faults: Vec<String>,
}

/// Result of a file of fixtures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of passed fixtures.
    pub passed: usize,
    /// Failed fixtures.
    pub failures: Vec<FixtureFailure>,
    /// True if the server answered too late in two fixtures in a row: the remaining fixtures were not run.
    pub is_abandoned: bool,
}

/// Runs every fixture of a file, each in a separate project.
///
/// # Errors
///
/// A folder for the projects could not be created.
pub async fn run(command: &ServerCommand, file: &FixtureFile) -> io::Result<Report> {
    let mut report = Report::default();
    let mut was_timeout = false;
    for fixture in &file.fixtures {
        let folder = tempfile::tempdir()?;
        let Err(FailedStep { step, faults, is_timeout }) = run_one(command, fixture, folder.path()).await
        else {
            report.passed += 1;
            was_timeout = false;
            continue;
        };
        report.failures.push(FixtureFailure { fixture: fixture.name.clone(), step, faults });
        if is_timeout && was_timeout {
            report.is_abandoned = true;
            break;
        }
        was_timeout = is_timeout;
    }
    Ok(report)
}

/// Failed step of a fixture, counted from 1, or 0 before the first.
struct FailedStep {
    step: usize,
    faults: Vec<String>,
    is_timeout: bool,
}

async fn run_one(command: &ServerCommand, fixture: &Fixture, folder: &Path) -> Result<(), FailedStep> {
    let failed = |step: usize| {
        move |error: ServerError| FailedStep {
            step,
            faults: vec![error.to_string()],
            is_timeout: error.is_timeout,
        }
    };
    let judged = |step: usize, faults: Vec<String>| match faults.is_empty() {
        true => Ok(()),
        false => Err(FailedStep { step, faults, is_timeout: false }),
    };
    let mut server = begin(command, &fixture.precondition, folder).await.map_err(failed(0))?;
    for (number, step) in (1..).zip(&fixture.steps) {
        let outcome = match &step.action {
            Action::Call(call) => server.call(call).await.map(Some),
            Action::Restart => {
                server.end().await;
                server = TestedServer::start(command, folder).await.map_err(failed(number))?;
                Ok(None)
            }
            Action::Together { servers, times, call } => {
                together(command, folder, (*servers, *times), call).await.map(|()| None)
            }
            Action::Kill { rounds, call } => {
                server.end().await;
                let faults = kill_rounds(command, fixture, *rounds, call, &step.postcondition).await;
                judged(number, faults.map_err(failed(number))?)?;
                // The rounds ran in projects of their own, so this project is unchanged.
                server = TestedServer::start(command, folder).await.map_err(failed(number))?;
                continue;
            }
        };
        let answer = outcome.map_err(failed(number))?;
        let faults = faults_after(&server, &step.postcondition, answer.as_ref(), folder).await;
        judged(number, faults.map_err(failed(number))?)?;
    }
    server.end().await;
    Ok(())
}

/// Creates the project, and starts the server in it.
async fn begin(
    command: &ServerCommand,
    before: &Precondition,
    folder: &Path,
) -> Result<TestedServer, ServerError> {
    for (name, content) in &before.files {
        let path = folder.join(name);
        let text = match content {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| {
            ServerError::new(format!("{name} of the precondition cannot be written: {error}"))
        })?;
    }
    let server = TestedServer::start(command, folder).await?;
    for call in &before.calls {
        if let CallReply::Error(text) = server.call(call).await? {
            return Err(ServerError::new(format!("{} of the precondition failed: {text}", call.tool)));
        }
    }
    Ok(server)
}

async fn faults_after(
    server: &TestedServer,
    expected: &Postcondition,
    answer: Option<&CallReply>,
    folder: &Path,
) -> Result<Vec<String>, ServerError> {
    let mut faults = Vec::new();
    // Make the calls before the files are compared: a server may complete an interrupted change at its first call.
    for then in &expected.then {
        match server.call(&then.call).await? {
            CallReply::Error(text) => faults.push(format!("{} failed then: {text}", then.call.tool)),
            CallReply::Result(value) => {
                faults.extend(judge::faults_at(&format!("{} then", then.call.tool), &then.result, &value));
            }
        }
    }
    faults.extend(judge::faults(expected, answer, folder));
    Ok(faults)
}

/// Makes the same call by several servers at once.
async fn together(
    command: &ServerCommand,
    folder: &Path,
    (servers, times): (usize, usize),
    call: &Call,
) -> Result<(), ServerError> {
    let one = || async {
        let server = TestedServer::start(command, folder).await?;
        for _ in 0..times {
            if let CallReply::Error(text) = server.call(call).await? {
                return Err(ServerError::new(format!(
                    "{} failed in parallel with other calls: {text}",
                    call.tool
                )));
            }
        }
        server.end().await;
        Ok(())
    };
    try_join_all((0..servers).map(|_| one())).await.map(drop)
}

/// Kills a server in the middle of a call, repeatedly, each time in a new project.
async fn kill_rounds(
    command: &ServerCommand,
    fixture: &Fixture,
    rounds: usize,
    call: &Call,
    expected: &Postcondition,
) -> Result<Vec<String>, ServerError> {
    // Choose the times of the kills within the duration of the call.
    let mut whole = Duration::from_millis(20);
    for round in 0..rounds {
        let folder = tempfile::tempdir().map_err(|error| {
            ServerError::new(format!("a folder for a project cannot be created: {error}"))
        })?;
        let server = begin(command, &fixture.precondition, folder.path()).await?;
        // The first round measures the call without a kill.
        if round == 0 {
            let began = Instant::now();
            server.call(call).await?;
            whole = began.elapsed() * 5 / 4;
            server.end().await;
        } else {
            let share = u32::try_from(round).unwrap_or(u32::MAX);
            let moment = whole / u32::try_from(rounds).unwrap_or(u32::MAX) * share;
            let _ = tokio::time::timeout(moment, server.call(call)).await;
            server.kill().await;
        }
        let server = TestedServer::start(command, folder.path()).await?;
        let faults = faults_after(&server, expected, None, folder.path()).await?;
        server.end().await;
        if !faults.is_empty() {
            return Ok(faults.into_iter().map(|fault| format!("round {}: {fault}", round + 1)).collect());
        }
    }
    Ok(Vec::new())
}
