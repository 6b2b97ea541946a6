//! `nexus testbed`: which reviewers catch the confident wrong answer.

mod run;

use std::{error::Error as _, fs, path::Path, process::ExitCode, sync::Arc};

use nexus::{BuildContext, CancelToken};
use nexus_tasks::TaskSettings;
use nexus_testbed::{
    ExperimentResults, ProofFolder, TestbedError, Trap, experiment_html, experiment_markdown,
};
use serde_json::json;

use crate::{
    EXIT_FAILED,
    args::{TestbedCommand, TrapArgs},
    command_error::CommandError,
    interrupt,
    output::{complain, printable, printable_lines, say, say_json},
};

pub(crate) async fn testbed(command: TestbedCommand) -> Result<ExitCode, CommandError> {
    match command {
        TestbedCommand::List { traps, json } => list(&traps, json),
        TestbedCommand::Prove(traps) => prove(&traps).await,
        TestbedCommand::Run(args) => run::run(&args).await,
        TestbedCommand::Report { folder, markdown, output } => report(&folder, markdown, output.as_deref()),
    }
}

/// The traps that a command line names.
fn traps(args: &TrapArgs) -> Result<Vec<Arc<Trap>>, CommandError> {
    let all = match &args.traps {
        Some(folder) => Trap::load_all(folder),
        None => Trap::built_in(),
    };
    let all = all.map_err(TestbedError::from)?;
    if let Some(name) = args.names.iter().find(|name| !all.iter().any(|trap| trap.name() == **name)) {
        let known: Vec<&str> = all.iter().map(Trap::name).collect();
        return Err(format!("there is no trap {:?}; there are {}", printable(name), known.join(", ")).into());
    }
    let is_meant = |trap: &Trap| args.names.is_empty() || args.names.iter().any(|name| name == trap.name());
    Ok(all.into_iter().filter(is_meant).map(Arc::new).collect())
}

fn list(args: &TrapArgs, as_json: bool) -> Result<ExitCode, CommandError> {
    for trap in traps(args)? {
        if as_json {
            say_json(&json!({
                "name": trap.name(), "kind": trap.kind(), "about": trap.about(), "goal": trap.goal(),
                "from": trap.origin(), "sha256": trap.fingerprint(),
            }));
        } else {
            say(printable_lines(&format!("{}  {}\n    {}", trap.name(), trap.kind(), trap.about())));
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn prove(args: &TrapArgs) -> Result<ExitCode, CommandError> {
    let traps = traps(args)?;
    let folder = ProofFolder::make(&BuildContext::from_process().home.join("testbed"))?;
    let cancel = CancelToken::new();
    let proofs = async {
        let mut are_sound = true;
        for trap in &traps {
            let proof = trap.prove(&folder.trap(), &TaskSettings::default(), &cancel).await?;
            are_sound &= proof.is_sound();
            let word = if proof.is_sound() { "is a trap" } else { "is none" };
            say(format_args!(
                "{} {word}: {} of {} hold",
                trap.name(),
                proof.checks.len() - proof.faults().count(),
                proof.checks.len()
            ));
            for check in proof.faults() {
                say(printable_lines(&format!(
                    "    not so: {}: {}",
                    check.holds,
                    check.fault.as_deref().unwrap_or_default()
                )));
            }
        }
        Ok::<_, TestbedError>(are_sound)
    };
    let mut proofs = std::pin::pin!(proofs);
    tokio::select! {
        are_sound = &mut proofs => Ok(if are_sound? { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) }),
        listened = interrupt::interrupted() => {
            cancel.cancel();
            let _ = proofs.await;
            ended(listened)
        }
    }
}

fn report(folder: &Path, is_markdown: bool, output: Option<&Path>) -> Result<ExitCode, CommandError> {
    let results = ExperimentResults::read(folder)?;
    let page = if is_markdown { experiment_markdown(&results) } else { experiment_html(&results) };
    match output {
        None => say(page.trim_end()),
        Some(path) => fs::write(path, page)
            .map_err(|error| CommandError::failed(format_args!("{}: {error}", path.display())))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// How a command ends that a signal ended.
fn ended(listened: std::io::Result<()>) -> Result<ExitCode, CommandError> {
    match listened {
        Ok(()) => Ok(interrupt::exit_code()),
        Err(error) => Err(CommandError::failed(format_args!("signals cannot be listened to: {error}"))),
    }
}

/// Says something beside the answer.
fn note(text: &str) {
    complain(printable_lines(text));
}

impl From<TestbedError> for CommandError {
    fn from(error: TestbedError) -> Self {
        let mut words = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            words = format!("{words}: {cause}");
            source = cause.source();
        }
        let words = printable_lines(&words);
        match error {
            TestbedError::Trap(_) | TestbedError::Arm { .. } | TestbedError::Experiment { .. } => {
                words.into()
            }
            _ => Self::failed(words),
        }
    }
}
