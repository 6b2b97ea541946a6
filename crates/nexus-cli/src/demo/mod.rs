//! `nexus demo`: this program's commands on simulated vendors.

mod configuration;
mod home;
mod messages;
mod project;
mod reply;
mod request;
mod script;
mod server;
pub(crate) mod shell;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
};

use nexus::{process::sandbox::Sandbox, tree::Git};
use nexus_files::shell_word;
use serde_json::Value;

use self::{
    configuration::DemoSetup,
    home::DemoHome,
    script::{CAREFUL, CARELESS, NOTE, TOTAL},
    shell::DemoShell,
};
use crate::{
    EXIT_FAILED,
    args::{DEMO_ADDRESS, DemoArgs, DemoCommand, DemoHomeArgs, DemoTaskArgs},
    command_error::CommandError,
    output::say,
};

pub(crate) async fn demo(args: DemoArgs) -> Result<ExitCode, CommandError> {
    match args.command {
        Some(DemoCommand::Server(server)) => server::serve(&server).await,
        Some(DemoCommand::Turn(home)) => turn(&home).await,
        Some(DemoCommand::Task(args)) => task(&args).await,
        None => task(&args.task).await,
    }
}

/// Shows one turn.
async fn turn(args: &DemoHomeArgs) -> Result<ExitCode, CommandError> {
    say("One turn on the simulated vendor blue. No login, no network.");
    let home = DemoHome::open(args.home.as_deref())?;
    let mut shell = DemoShell::new(home.folder())?;
    let server = shell.serve()?;
    let has_sandbox = Sandbox::new().check().await.is_ok();
    home.configure(DemoSetup { address: server.address(), has_sandbox, is_wrong: false })?;
    begin(&home, server.address());
    if !shell.run(&["run", "executor", "What does Nexus do?"]).await? {
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    look_around(
        &home,
        server.address(),
        &[
            ("nexus explain executor", "why this turn ran on blue; runs no turn"),
            ("nexus check", "the types and backends of the demo"),
        ],
    );
    say("\nTry next:");
    try_next("nexus demo task", "a whole task, from a goal to a reviewed commit");
    try_next("nexus setup", "your own vendors: what is there, and what is missing");
    Ok(ExitCode::SUCCESS)
}

/// Shows a task, from its goal to its report.
async fn task(args: &DemoTaskArgs) -> Result<ExitCode, CommandError> {
    say("A whole task on two simulated vendors, amber and blue. No login, no network.");
    let sandbox = Sandbox::new().check().await;
    if let Err(error) = &sandbox {
        say(format_args!("\nMissing: {error}."));
    }
    if let Err(error) = Git::find() {
        let message = format_args!("the demo of a task needs git: {error}");
        return Err(CommandError::failed(message).with_advice("`nexus demo turn` works without it"));
    }
    if sandbox.is_err() {
        say("Without a sandbox no probes: the reviewers vote on the diff.");
        if args.repo.is_none() {
            say("The test of the demo's own project runs with all your rights.");
        }
    }
    let repository = args.repo.as_deref().map(repository).transpose()?;
    let home = DemoHome::open(args.home.home.as_deref())?;
    let mut shell = DemoShell::new(home.folder())?;
    let project = match &repository {
        Some(folder) => folder.clone(),
        None => project::ready_in(home.folder())?,
    };
    let server = shell.serve()?;
    let setup = DemoSetup { address: server.address(), has_sandbox: sandbox.is_ok(), is_wrong: args.wrong };
    home.configure(setup)?;
    introduce(&project, repository.is_some(), args.wrong);
    begin(&home, server.address());

    let folder = project.to_str().unwrap_or_default();
    let goal = match repository {
        Some(_) => format!("Add a file with the line: {NOTE}"),
        None => TOTAL.goal.to_owned(),
    };
    let mut new = vec!["task", "new", &goal, "--project", folder];
    if repository.is_none() {
        new.extend(["--test", TOTAL.test]);
    }
    if args.wrong {
        new.extend(["--retries", "1"]);
    }
    if !shell.run(&new).await? {
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    let is_complete = shell.run(&["task", "run", "last"]).await?;
    let shown = if args.wrong { "verdict-1" } else { "patch" };
    shell.run(&["task", "show", "last", shown]).await?;
    let report = home.folder().join("report.html");
    let written = shell.run(&["task", "report", "last", "-o", report.to_str().unwrap_or_default()]).await?;
    // A wrong change has to fail by a vote. Any other failure is not what the demo shows.
    let is_expected = match args.wrong {
        true => !is_complete && is_rejected(&mut shell).await?,
        false => is_complete,
    };
    if !written || !is_expected {
        say("\nThe task did not end as the demo expects.");
        look_around(&home, server.address(), &[("nexus task log last", "every turn and vote")]);
        return Ok(ExitCode::from(EXIT_FAILED));
    }
    conclude(&home, server.address(), &report, repository.is_some(), args.wrong);
    Ok(ExitCode::SUCCESS)
}

/// Returns true if reviewers reached a verdict on the last task that does not advance it.
async fn is_rejected(shell: &mut DemoShell) -> Result<bool, CommandError> {
    let log = shell.answer(&["task", "log", "last", "--json"]).await?;
    let mut entries = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(entries.any(|entry| entry["kind"] == "verdict_reached" && entry["data"]["decision"] != "advance"))
}

/// Returns the top folder of the user's repository.
fn repository(path: &Path) -> Result<PathBuf, CommandError> {
    let folder = path
        .canonicalize()
        .map_err(|error| CommandError::usage(format_args!("--repo {}: {error}", path.display())))?;
    if folder.to_str().is_none() {
        return Err(CommandError::usage(format_args!("--repo {folder:?} is not UTF-8")));
    }
    match folder.join(".git").exists() {
        true => Ok(folder),
        false => Err(CommandError::usage(format_args!(
            "--repo {} is not the top folder of a git repository",
            folder.display()
        ))
        .with_advice("`git rev-parse --show-toplevel` prints the top folder")),
    }
}

/// Describes the project of the task.
fn introduce(project: &Path, is_users: bool, is_wrong: bool) {
    let project = project.display();
    if is_users {
        say(format_args!("\nThe project is your repository {project}."));
        say("The agents work in a copy of its last commit. Your files and branches stay as\nthey are.");
    } else {
        say(format_args!("\nThe project is {project},\na git repository with a mistake in total.sh:\n"));
        for line in TOTAL.files[0].1.lines() {
            say(format_args!("    {line}"));
        }
    }
    if is_wrong {
        say(format_args!(
            "\nIn nexus.yaml, the executor has the model `{CARELESS}`: its change will be wrong."
        ));
        if !is_users {
            say("The project's test will pass.");
        }
    }
}

/// Prints how the commands find the home and the server of the demo.
fn begin(home: &DemoHome, server: SocketAddr) {
    say(format_args!("\n$ {}", export(home)));
    say(format_args!("$ {} &", server_words(server)));
}

/// Returns the command of a shell that selects the home of the demo.
fn export(home: &DemoHome) -> String {
    format!("export NEXUS_HOME={}", shell_word(home.folder()))
}

/// Returns the command that starts the server at this address.
fn server_words(address: SocketAddr) -> String {
    match address.to_string() == DEMO_ADDRESS {
        true => "nexus demo server".to_owned(),
        false => format!("nexus demo server --listen {address}"),
    }
}

/// Prints the outcome and the next commands.
fn conclude(home: &DemoHome, server: SocketAddr, report: &Path, is_users: bool, is_wrong: bool) {
    say(match (is_users, is_wrong) {
        (_, true) => "\nThe reviewers rejected the change, so nothing of it can be landed.",
        (true, false) => "\nReviewers of two vendors accepted the change. Nothing was landed.",
        (false, false) => "\nReviewers of two vendors accepted the change. It is a commit of the task.",
    });
    if is_wrong {
        say(format_args!(
            "Write `{CAREFUL}` for `{CARELESS}` in nexus.yaml, and the reopened task succeeds."
        ));
    }
    if is_users {
        say("Until you remove the task, your repository has one ref more: refs/nexus/base/….");
    }
    say(format_args!("\nThe report: {}", report.display()));
    let mut commands = vec![
        ("nexus task status last", "plan, criteria and usage"),
        ("nexus task log last", "every turn and vote"),
    ];
    if !is_wrong {
        commands.push(("nexus task show last verdict-1", "the votes with their evidence"));
    }
    if is_wrong {
        commands.push(("nexus task reopen last 'Again.'", "with `careful` in nexus.yaml"));
    }
    if is_users {
        commands.push(("nexus task remove last", "removes the task and its ref"));
    } else if !is_wrong {
        commands.push(("nexus task land last", "moves the branch of the project"));
    }
    look_around(home, server, &commands);
    say("\nTry next:");
    if !is_wrong {
        try_next("nexus demo task --wrong", "a mistake, and a panel that rejects it");
    }
    if !is_users {
        try_next("nexus demo task --repo .", "a new file in your repository, never landed");
    }
    try_next("nexus setup", "your own vendors: what is there, and what is missing");
}

/// Prints commands on the home of the demo.
fn look_around(home: &DemoHome, server: SocketAddr, commands: &[(&str, &str)]) {
    say("\nLook around:");
    say(format_args!("  {}", export(home)));
    for (command, purpose) in commands {
        try_next(command, purpose);
    }
    try_next(&server_words(server), "starts the simulated vendors again");
}

fn try_next(command: &str, purpose: &str) {
    say(format_args!("  {command:<31} # {purpose}"));
}
