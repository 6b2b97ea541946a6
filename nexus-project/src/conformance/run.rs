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
    server::{Answer, Server, ServerCommand, ServerError},
};

/// A fixture that a server does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixtureFailure {
    /// The fixture's name.
    pub fixture: String,
    /// The step, from 1; 0 if it did not come so far.
    pub step: usize,
    /// What is wrong, one sentence each.
    pub faults: Vec<String>,
}

/// What came of the fixtures of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many were passed.
    pub passed: usize,
    /// Those that were not.
    pub failures: Vec<FixtureFailure>,
}

/// Runs every fixture of a file, each in a project of its own.
///
/// # Errors
///
/// A folder for the projects could not be made.
pub async fn run(command: &ServerCommand, file: &FixtureFile) -> io::Result<Report> {
    let mut report = Report::default();
    for fixture in &file.fixtures {
        let folder = tempfile::tempdir()?;
        let (step, faults) = run_one(command, fixture, folder.path()).await;
        if faults.is_empty() {
            report.passed += 1;
        } else {
            report.failures.push(FixtureFailure { fixture: fixture.name.clone(), step, faults });
        }
    }
    Ok(report)
}

async fn run_one(command: &ServerCommand, fixture: &Fixture, folder: &Path) -> (usize, Vec<String>) {
    let failed = |step: usize, error: ServerError| (step, vec![error.to_string()]);
    let mut server = match begin(command, &fixture.precondition, folder).await {
        Ok(server) => server,
        Err(error) => return failed(0, error),
    };
    for (number, step) in (1..).zip(&fixture.steps) {
        let outcome = match &step.action {
            Action::Call(call) => server.call(call).await.map(Some),
            Action::Restart => {
                server.end().await;
                match Server::start(command, folder).await {
                    Ok(other) => server = other,
                    Err(error) => return failed(number, error),
                }
                Ok(None)
            }
            Action::Together { servers, times, call } => {
                together(command, folder, (*servers, *times), call).await.map(|()| None)
            }
            Action::Kill { rounds, call } => {
                server.end().await;
                match kill_rounds(command, fixture, *rounds, call, &step.postcondition).await {
                    Ok(faults) if faults.is_empty() => {}
                    Ok(faults) => return (number, faults),
                    Err(error) => return failed(number, error),
                }
                // Each round had a project of its own, and so this one goes on as it was.
                match Server::start(command, folder).await {
                    Ok(other) => server = other,
                    Err(error) => return failed(number, error),
                }
                continue;
            }
        };
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => return failed(number, error),
        };
        match faults_after(&server, &step.postcondition, answer.as_ref(), folder).await {
            Ok(faults) if faults.is_empty() => {}
            Ok(faults) => return (number, faults),
            Err(error) => return failed(number, error),
        }
    }
    server.end().await;
    (0, Vec::new())
}

/// Makes the project, and starts the server in it.
async fn begin(command: &ServerCommand, before: &Precondition, folder: &Path) -> Result<Server, ServerError> {
    for (name, content) in &before.files {
        let path = folder.join(name);
        let text = match content {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| ServerError(format!("{name} of the precondition cannot be written: {error}")))?;
    }
    let server = Server::start(command, folder).await?;
    for call in &before.calls {
        if let Answer::Error(text) = server.call(call).await? {
            return Err(ServerError(format!("{} of the precondition failed: {text}", call.tool)));
        }
    }
    Ok(server)
}

async fn faults_after(
    server: &Server,
    expected: &Postcondition,
    answer: Option<&Answer>,
    folder: &Path,
) -> Result<Vec<String>, ServerError> {
    let mut faults = Vec::new();
    // Before the files: a server may finish at its first call what another had begun.
    for then in &expected.then {
        match server.call(&then.call).await? {
            Answer::Error(text) => faults.push(format!("{} failed then: {text}", then.call.tool)),
            Answer::Result(value) => {
                faults.extend(judge::faults_at(&format!("{} then", then.call.tool), &then.result, &value));
            }
        }
    }
    faults.extend(judge::faults(expected, answer, folder));
    Ok(faults)
}

/// The same call by several servers at once.
async fn together(
    command: &ServerCommand,
    folder: &Path,
    (servers, times): (usize, usize),
    call: &Call,
) -> Result<(), ServerError> {
    let one = || async {
        let server = Server::start(command, folder).await?;
        for _ in 0..times {
            if let Answer::Error(text) = server.call(call).await? {
                return Err(ServerError(format!("{} failed beside others: {text}", call.tool)));
            }
        }
        server.end().await;
        Ok(())
    };
    try_join_all((0..servers).map(|_| one())).await.map(drop)
}

/// Kills a server in the middle of a call, again and again, each time in a new project.
async fn kill_rounds(
    command: &ServerCommand,
    fixture: &Fixture,
    rounds: usize,
    call: &Call,
    expected: &Postcondition,
) -> Result<Vec<String>, ServerError> {
    // How long the call takes is what the moments are drawn from.
    let mut whole = Duration::from_millis(20);
    for round in 0..rounds {
        let folder = tempfile::tempdir()
            .map_err(|error| ServerError(format!("a folder cannot be made for a project: {error}")))?;
        let server = begin(command, &fixture.precondition, folder.path()).await?;
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
        let server = Server::start(command, folder.path()).await?;
        let faults = faults_after(&server, expected, None, folder.path()).await?;
        server.end().await;
        if !faults.is_empty() {
            return Ok(faults.into_iter().map(|fault| format!("round {}: {fault}", round + 1)).collect());
        }
    }
    Ok(Vec::new())
}
